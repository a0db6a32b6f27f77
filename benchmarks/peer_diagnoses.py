"""Claim: Stoker names the known cause and a right first fix; what others answer stands beside.

`python -m benchmarks.peer_diagnoses [--tool TOOL ...] [CASE ...]` asks each tool (stoker, traceml,
spdl, loadtune, gpuprof) about handed cases, each in an environment of its own that the first call
makes in .venv-peers. An answer is kept as soon as it is there; `--judge` only judges the kept ones
again. What an answer counts for stands in `peers/judged.py`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from benchmarks import record
from benchmarks.case_verdicts import answers
from benchmarks.peers import judged, tools

NAME = "peer_diagnoses"
CASES = ("c01", "c02", "c03", "c04", "c08b", "c10", "c11", "c15", "c28", "c39")
ASKED = ("stoker", *tools.TOOLS)
CLAIM = "Stoker names the known cause and a right first fix; the others' answers stand beside it."
TITLES = ("stoker", "TraceML 0.5.0", "SPDL 0.8.0 (CacheDataLoader)", "loadtune 0.3.0")
COLUMNS = ("case", "known cause", *TITLES, "gpuprof 0.7.1")
# A cell holds the beginning of what a tool said: enough to recognise it in its own output.
CELL_LETTERS = 110
KEPT_LETTERS = 200  # of its advice, in the result


def ask(tool: str, case: str, entry: dict[str, Any]) -> dict[str, Any]:
    """What the tool says of the case, or the problem that kept it from an answer."""
    started = time.monotonic()
    if tool == "stoker":
        said = answers(case, entry, 1, "30")[0]
        return {key: said[key] for key in ("verdict", "first_fix", "problem", "seconds")}
    with tools.scratch() as folder:
        try:
            said = dataclasses.asdict(tools.TOOLS[tool](case, folder))
            said["advice"] = said["advice"][:KEPT_LETTERS]
        except tools.NoAnswerError as error:
            said = {"problem": str(error).replace(str(folder), "")}
    return said | {"seconds": round(time.monotonic() - started, 1)}


def cell(tool: str, said: dict[str, Any] | None, entry: dict[str, Any]) -> str:
    """The tool's words, and what they count for."""
    if said is None:
        return "not asked"
    if said.get("problem"):
        return f"no answer ({said['problem'].splitlines()[0][:CELL_LETTERS]})"
    finding, advice = judged.judge(judged.read(tool, said), entry)
    counts = {"none": "no answer"}.get(finding, finding)
    source = f" ({said['source']})" if "source" in said else ""
    return f"{_words(tool, said)} → **{counts}**; advice {advice}{source}"


def _words(tool: str, said: dict[str, Any]) -> str:
    if tool == "stoker":
        return f"{said['verdict']}, {said['first_fix']}"
    words = said["finding"]
    if tool == "loadtune" and "Recommended config" in said["advice"]:
        words += f" {said['advice'].partition(' (')[0]}"
    return words if len(words) <= CELL_LETTERS else words[: CELL_LETTERS - 1] + "…"


def totals(kept: dict[str, dict[str, Any]], expected: dict[str, Any]) -> list[str]:
    """A row that counts the judgements of each tool over the cases."""
    cells = ["all", ""]
    for tool in ASKED:
        findings: Counter[str] = Counter()
        advices: Counter[str] = Counter()
        for case, given in kept.items():
            said = given.get(tool)
            if said is None:
                continue
            if said.get("problem"):
                findings["none"] += 1
                advices["none"] += 1
                continue
            finding, advice = judged.judge(judged.read(tool, said), expected[case])
            findings[finding] += 1
            advices[advice] += 1
        cells.append(f"{_listed(findings)}; advice: {_listed(advices)}" if findings else "")
    return cells


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {word}" for word, count in counts.most_common())


def main() -> int:
    """Ask the tools named about the cases named; all without names."""
    expected: dict[str, Any] = json.loads((tools.CASES / "expected.json").read_text())
    parser = argparse.ArgumentParser(description=CLAIM)
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--tool", action="append", choices=ASKED)
    parser.add_argument("--judge", action="store_true", help="ask nobody, judge the kept answers")
    args = parser.parse_args()
    kept = _kept()
    if not args.judge:
        for case in args.cases or CASES:
            for tool in args.tool or ASKED:
                said = ask(tool, case, expected[case])
                said["date"] = datetime.now(UTC).date().isoformat()
                print(tool, case, json.dumps(said, ensure_ascii=False), file=sys.stderr)
                kept.setdefault(case, {})[tool] = said
                _write(kept, expected)
    return 0 if _write(kept, expected) else 1


def _kept() -> dict[str, dict[str, Any]]:
    path = record.RESULTS / f"{NAME}.json"
    if not path.exists():
        return {}
    rows = json.loads(path.read_text())["rows"]
    return {case: row["numbers"] for case, row in rows.items() if case != "sum"}


def _with_known_verdicts(kept: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Where Stoker was not asked here: its last answer in `case_verdicts`, marked so."""
    path = record.RESULTS / "case_verdicts.json"
    known = json.loads(path.read_text())["rows"] if path.exists() else {}
    return {
        case: {"stoker": known[case]["numbers"]["runs"][-1] | {"source": "case_verdicts"}} | given
        if case in known
        else given
        for case, given in kept.items()
    }


def _write(answered: dict[str, dict[str, Any]], expected: dict[str, Any]) -> bool:
    kept = _with_known_verdicts(answered)
    rows = {
        case: [
            case,
            expected[case]["verdict"],
            *(cell(tool, given.get(tool), expected[case]) for tool in ASKED),
        ]
        for case, given in kept.items()
    }
    passed = {case: _holds(given.get("stoker"), expected[case]) for case, given in kept.items()}
    return record.write(
        NAME,
        claim=CLAIM,
        columns=COLUMNS,
        rows=rows | {"sum": totals(kept, expected)},
        numbers=answered | {"sum": {}},
        passed=passed | {"sum": all(passed.values())},
    )


def _holds(said: dict[str, Any] | None, entry: dict[str, Any]) -> bool:
    if said is None or said.get("problem"):
        return False
    return judged.judge(judged.read("stoker", said), entry) == ("cause", "right")


if __name__ == "__main__":
    sys.exit(main())
