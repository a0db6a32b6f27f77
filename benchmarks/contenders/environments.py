"""The environments of peers that `setup` makes, and why one is not there."""

from __future__ import annotations

from pathlib import Path

from benchmarks.record import ROOT

FOLDER = ROOT / ".venv-peers"
_LONGEST = 160


def why_not(home: Path) -> str | None:
    """Why a peer can't be run; None where its environment is whole."""
    if (home / "failed").exists():
        return f"not installed: {short((home / 'failed').read_text())}"
    if not (home / ".done").exists():
        return "not installed: run benchmarks/contenders/setup"
    return None


def short(text: str) -> str:
    """A reason that a table has room for."""
    return " ".join(text.split())[:_LONGEST]
