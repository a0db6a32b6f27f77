"""What a benchmark leaves behind: its table and raw numbers as JSON, beside the machine."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
HELD = {True: "holds", False: "DOES NOT HOLD", None: "not measured"}
PACKAGES = ("stoker", "torch", "numpy", "pillow", "rich", "msgspec")


def machine() -> dict[str, Any]:
    """The machine and the software, without names that only its owner knows."""
    return {
        "cpu": _cpu_model(),
        "cpus_online": os.cpu_count(),
        "cpus_allowed": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "load_before": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "packages": {name: metadata.version(name) for name in PACKAGES},
        "revision": _revision(),
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _revision() -> str:
    """The commit, with a plus when the tree differs from it."""
    ended = subprocess.run(
        ["git", "describe", "--always", "--dirty=+", "--exclude", "*"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.stdout.strip() or "unknown"


def of_this_revision(name: str, key: str) -> dict[str, Any] | None:
    """The numbers of a row that was measured at this commit, None where there are none."""
    path = RESULTS / f"{name}.json"
    if not path.exists():
        return None
    row = json.loads(path.read_text())["rows"].get(key)
    if row is None or row["machine"]["revision"].rstrip("+") != _revision().rstrip("+"):
        return None
    numbers: dict[str, Any] = row["numbers"]
    return numbers


def sentence(described: Mapping[str, Any]) -> str:
    """A machine description in one line, for the foot of a table."""
    gibibytes = described["memory_bytes"] / 2**30
    packages = described["packages"]
    return (
        f"{described['cpu']}, {described['cpus_allowed']} cores, {gibibytes:.0f} GiB; "
        f"Python {described['python']}, torch {packages['torch']}, stoker {packages['stoker']}"
    )


def write(
    name: str,
    *,
    claim: str,
    columns: Sequence[str],
    rows: Mapping[str, Sequence[str]],
    numbers: Mapping[str, Any],
    passed: Mapping[str, bool | None],
    is_shown: bool = True,
) -> bool:
    """Print the table and keep `results/<name>.json`; True when the claim fails in no row.

    `rows` are the finished strings of each row by its key, `numbers` what was measured for it
    (SI units, named in the key), `passed` whether the claim holds there, None where it could not
    be measured. With `is_shown` False nothing is printed: for what is kept on the way. Rows of an
    earlier run that this one did not measure again stay, each with its own date and machine.
    """
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    kept: dict[str, Any] = {}
    if path.exists():
        earlier = json.loads(path.read_text())
        if earlier["columns"] == list(columns):
            kept = earlier["rows"]
    described = machine()
    today = datetime.now(UTC).date().isoformat()
    for key, cells in rows.items():
        kept[key] = {
            "cells": list(cells),
            "numbers": numbers[key],
            "passed": passed[key],
            "date": today,
            "machine": described,
        }
    result: dict[str, Any] = {"name": name, "claim": claim, "columns": list(columns)}
    result["rows"] = {key: kept[key] for key in sorted(kept)}
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    if is_shown:
        _show(claim, columns, rows, passed)
    return all(held is not False for held in passed.values())


def _show(
    claim: str,
    columns: Sequence[str],
    rows: Mapping[str, Sequence[str]],
    passed: Mapping[str, bool | None],
) -> None:
    table = Table(title=claim, title_justify="left")
    for column in (*columns, ""):
        table.add_column(column)
    for key, cells in rows.items():
        table.add_row(*cells, HELD[passed[key]])
    Console(width=110).print(table)
