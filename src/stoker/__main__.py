"""`python -m stoker` is `stoker`."""

from stoker.cli.main import run

run()
