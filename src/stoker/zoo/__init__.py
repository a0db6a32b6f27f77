"""Numbers with their sources: data, not code."""
