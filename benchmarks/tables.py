"""Writes the tables of README and docs from the results: `python -m benchmarks.tables [--check]`.

A table stands between `<!-- table: NAME -->` and `<!-- end of table -->`; NAME is a file of
benchmarks/results. Nothing between the two lines is written by hand.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

from benchmarks.record import RESULTS, ROOT, sentence

_HELD = {True: "yes", False: "**no**", None: "not measured"}
MARKED = re.compile(
    r"(?P<start><!-- table: (?P<name>[\w-]+) -->\n).*?(?P<end><!-- end of table -->)", re.DOTALL
)


def documents() -> list[Path]:
    """The files that may hold tables."""
    return [
        ROOT / "README.md",
        ROOT / "benchmarks" / "README.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    ]


def markdown(result: dict[str, Any]) -> str:
    """One result as a Markdown table, with where and when it was measured below it."""
    columns = [*result["columns"], "claim holds"]
    lines = [
        "| " + " | ".join(columns) + " |",
        "|" + "---|" * len(columns),
    ]
    foot: dict[str, None] = {}  # a set that keeps its order
    for row in result["rows"].values():
        cells = [*row["cells"], _HELD[row["passed"]]]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        foot[f"{row['date']}, {sentence(row['machine'])}"] = None
    measured = "; ".join(foot)
    script = f"`python -m benchmarks.{result['name']}`"
    return "\n".join([*lines, "", f"{result['claim']} Measured by {script}: {measured}.", ""])


def filled(text: str) -> str:
    """The text with every marked table written anew, or what to run where there is no result.

    A name that no benchmark has is a KeyError.
    """

    def table(found: re.Match[str]) -> str:
        path = RESULTS / f"{found['name']}.json"
        script = f"`python -m benchmarks.{found['name']}`"
        if not path.exists():
            if not (ROOT / "benchmarks" / f"{found['name']}.py").exists():
                raise KeyError(f"there is neither a result {path.name} nor {script}")
            return f"{found['start']}Not measured yet: {script} writes this table.\n{found['end']}"
        return f"{found['start']}{markdown(json.loads(path.read_text()))}{found['end']}"

    return MARKED.sub(table, text)


def stale() -> list[Path]:
    """Documents whose tables do not match the results."""
    return [
        path
        for path in documents()
        if path.exists() and filled(path.read_text()) != path.read_text()
    ]


def main() -> int:
    """Rewrite the tables; with --check only say which are stale (exit code 1)."""
    parser = argparse.ArgumentParser(description="Write the tables of README and docs.")
    parser.add_argument("--check", action="store_true", help="change nothing, say what is stale")
    args = parser.parse_args()
    found = stale()
    for path in found:
        print(("stale: " if args.check else "written: ") + str(path.relative_to(ROOT)))
        if not args.check:
            path.write_text(filled(path.read_text()))
    return 1 if found and args.check else 0


if __name__ == "__main__":
    sys.exit(main())
