"""Calls `stoker doctor` as a user would and reads the JSON that it writes."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


def diagnose(script: Path, *arguments: str, options: tuple[str, ...] = ()) -> dict[str, Any]:
    """The diagnosis of a script run in its own folder, with `took_s`, its wall time, added."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "diagnosis.json"
        command = [sys.executable, "-m", "stoker", "doctor", "--quiet", "--json", str(out)]
        started = time.perf_counter()
        ended = subprocess.run(
            [*command, *options, script.name, *arguments],
            cwd=script.parent,
            capture_output=True,
            text=True,
            check=False,
        )
        took_s = time.perf_counter() - started
        if not out.exists():
            raise RuntimeError(f"{script}: exit code {ended.returncode}: {ended.stderr[-600:]}")
        diagnosis: dict[str, Any] = json.loads(out.read_text())
        diagnosis["took_s"] = took_s
        return diagnosis
