"""Other tools that say why training waits, run on the handed cases by `peer_diagnoses.py`."""
