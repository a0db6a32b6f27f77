"""The doctor's answers on the handed cases, judged as `run_cases.py` judges them."""

from __future__ import annotations

import importlib.util
import json
import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from benchmarks.plain import ByLength

FOLDER = Path(__file__).parent
EXPECTED: dict[str, dict[str, Any]] = json.loads((FOLDER / "expected.json").read_text())
# One of each kind in the ordinary run; the other cases take ten minutes more.
DEFAULT = ("c01", "c11", "c04", "c10b", "c09", "c08b")
# A control whose step is timed for a machine on which its loader keeps up, and the case that it is
# on a slower one: the same loader with a shorter step.
ON_A_SLOW_MACHINE = {"c20b": "c20"}
SLOWER = 1.1  # than the step that the case's author measured
STOKER = f"{shlex.quote(sys.executable)} -m stoker"
TIMEOUT_S = 120.0


def _run_cases() -> ModuleType:
    spec = importlib.util.spec_from_file_location("run_cases", FOLDER / "run_cases.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


run_cases = _run_cases()


def _answer(case: str, entry: dict[str, Any]) -> dict[str, Any]:
    """Verdict, fixes and whether they are acceptable, from one run of the doctor."""
    report, problem, _ = run_cases.call_doctor(
        shlex.split(STOKER), FOLDER, case, entry, TIMEOUT_S
    )
    answer: dict[str, Any] = run_cases.judge(entry, report, problem)
    return answer


def _expected(case: str) -> dict[str, Any]:
    """What the case is on this machine, by its steps timed from outside."""
    entry = EXPECTED[case]
    if case in ON_A_SLOW_MACHINE:
        step_s = ByLength(short=20, long=80).time(FOLDER / f"{case}.py").mean_s
        if 1000 * step_s > SLOWER * entry["true_step_ms"]:
            slow = EXPECTED[ON_A_SLOW_MACHINE[case]]
            # How much too slow is a matter of the moment, here and now: it may be over in a minute.
            return {
                **slow,
                "argv": entry["argv"],
                **{
                    key: [*slow[key], *entry[key], *more]
                    for key, more in (
                        ("acceptable_verdicts", ["inconclusive"]),
                        ("acceptable_first_fixes", []),
                    )
                },
                "note": f"a step takes {1000 * step_s:.0f} ms on this machine",
            }
    return entry


def _cases() -> list[Any]:
    marks = {case: [] if case in DEFAULT else [pytest.mark.full] for case in EXPECTED}
    return [pytest.param(case, marks=marks[case], id=case) for case in EXPECTED]


@pytest.mark.case
@pytest.mark.parametrize("case", _cases())
def test_the_doctor_finds_the_cause_and_its_first_fix(case: str) -> None:
    entry = EXPECTED[case]
    answer = _answer(case, entry)
    if not (answer["verdict_ok"] and answer["fix_ok"]):
        # A test machine is shared: what another process did to one run, it hardly does to two.
        entry = _expected(case)
        answer = _answer(case, entry)
    assert answer["problem"] == ""
    assert answer["verdict"] in entry["acceptable_verdicts"], entry["note"]
    assert not answer["forbidden"], f"{answer['first_fix']} does not help here: {entry['note']}"
    assert answer["first_fix"] in entry["acceptable_first_fixes"], entry["note"]
    if entry["control"]:
        assert not answer["blamed"], f"a healthy run was blamed: {entry['note']}"


def test_the_ordinary_run_has_causes_and_controls() -> None:
    controls = {case for case in DEFAULT if EXPECTED[case]["control"]}
    assert controls and set(DEFAULT) - controls
