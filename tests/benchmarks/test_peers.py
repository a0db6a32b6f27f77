"""Other tools' answers: the lines added for them, and one rule for what an answer is worth."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import peer_diagnoses
from benchmarks.peers import adapted, tools, workloads
from benchmarks.peers.judged import Reading, judge, read

EXPECTED: dict[str, Any] = json.loads((tools.CASES / "expected.json").read_text())
INPUT_BOUND = {
    "finding": "INPUT-BOUND: Input wait is 53.5% of the typical CPU Step Time.",
    "advice": "Increase workers, prefetch, or storage throughput.",
}


@pytest.mark.parametrize("case", peer_diagnoses.CASES)
def test_every_case_gets_the_lines_that_a_tool_asks_for(case: str) -> None:
    path = tools.CASES / f"{case}.py"
    traced = adapted.for_traceml(path)
    assert "with traceml.trace_step(peer.model):" in traced
    assert traced.count("peer.finish()") == 1
    assert "peer.forward(lambda: " in traced
    measured = adapted.for_gpuprof(path)
    assert "prof.wrap_dataloader(loader)" in measured
    assert "with s.phase('forward'):" in measured
    assert "CacheDataLoader(loader," in adapted.for_spdl(path, cached=True)
    assert "CacheDataLoader" not in adapted.for_spdl(path, cached=False)
    for text in (traced, measured, workloads.workload_file(case, path)):
        compile(text, path.name, "exec")


@pytest.mark.parametrize("case", peer_diagnoses.CASES)
def test_what_loads_stays_as_it_is(case: str) -> None:
    def loading(text: str) -> set[str]:
        return {ast.unparse(n) for n in ast.walk(ast.parse(text)) if isinstance(n, ast.ClassDef)}

    path = tools.CASES / f"{case}.py"
    own = loading(path.read_text())
    assert loading(adapted.for_traceml(path)) == own
    assert loading(adapted.for_gpuprof(path)) == own
    assert loading(workloads.workload_file(case, path)) == own


def test_a_script_without_a_loop_over_its_loader_is_refused(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("for batch in other: pass")
    with pytest.raises(ValueError, match="no loop over `loader`"):
        adapted.for_traceml(tmp_path / "script.py")


@pytest.mark.parametrize(
    ("case", "worth"),
    [
        ("c01", ("side", "right")),  # more workers are a way to overlap
        ("c02", ("side", "right")),
        ("c03", ("side", "harmful")),  # one disk: no number of workers helps
        ("c11", ("wrong side", "harmful")),
        ("c28", ("wrong side", "harmful")),
    ],
)
def test_the_same_words_are_worth_what_the_case_makes_of_them(
    case: str, worth: tuple[str, str]
) -> None:
    assert judge(read("traceml", INPUT_BOUND), EXPECTED[case]) == worth


def test_a_cause_counts_for_more_than_a_side_and_a_wrong_one_for_less() -> None:
    said = {"finding": "[HIGH] workers are CPU-bound", "advice": ""}
    assert judge(read("gpuprof", said), EXPECTED["c04"])[0] == "cause"
    assert judge(read("gpuprof", said), EXPECTED["c03"])[0] == "wrong cause"


def test_silence_is_not_wrong() -> None:
    assert judge(Reading(), EXPECTED["c01"]) == ("none", "none")
    assert read("gpuprof", {"finding": "[LOW] Step-time p99/p50 = 3×", "advice": ""}).side == ""


def test_finding_nothing_to_tell_but_a_price_blames_nobody() -> None:
    said = {"finding": "[LOW] Estimated cost: $0.05 (0 min · $12.29/h)", "advice": ""}
    assert judge(read("gpuprof", said), EXPECTED["c08b"]) == ("cause", "right")
    assert judge(read("gpuprof", said), EXPECTED["c03"])[0] == "wrong side"


@pytest.mark.parametrize(
    ("headspace", "side"), [(0.55, "loading"), (0.07, ""), (0.02, "step"), (-0.01, "step")]
)
def test_headspace_is_read_with_the_limits_of_its_own_guide(headspace: float, side: str) -> None:
    assert read("spdl", {"numbers": {"headspace": headspace}}).side == side


def _recommended(workers: int, settings: str) -> dict[str, Any]:
    return {
        "finding": "The workload is input-bound: 54% of step time is spent waiting.",
        "advice": f"Recommended config: workers={settings} — 2.11x baseline throughput",
        "numbers": {"workers": float(workers)},
    }


@pytest.mark.parametrize(
    ("before", "settings", "cause"),
    [
        (0, "2, persistent", "serial-loader"),
        (1, "4, persistent", "too-few-workers"),
        (4, "0", "handoff-bound"),
        (2, "2, persistent, threads=1", "oversubscribed"),
        (2, "2, prefetch=4, persistent", "variance-stalls"),
        (2, "2, persistent", "epoch-boundary"),
    ],
)
def test_settings_that_were_faster_are_read_as_the_cause_that_they_mend(
    before: int, settings: str, cause: str
) -> None:
    assert read("loadtune", _recommended(before, settings)).causes == (cause,)


def test_what_loadtune_tried_does_not_overrule_what_it_says() -> None:
    said = _recommended(2, "0") | {"finding": "The workload is compute-bound (data wait 1%)"}
    assert judge(read("loadtune", said), EXPECTED["c11"]) == ("cause", "other")


def test_fewer_workers_that_are_kept_may_mean_either_change() -> None:
    said = _recommended(2, "1, persistent")
    assert judge(read("loadtune", said), EXPECTED["c10"]) == ("cause", "right")
    assert judge(read("loadtune", said), EXPECTED["c15"])[0] == "cause"


def test_on_full_cores_loadtunes_own_words_come_before_its_settings() -> None:
    said = _recommended(2, "2, prefetch=4, persistent")
    said["finding"] = "The workload is input-bound (83% data wait) with CPU already saturated"
    assert read("loadtune", said).fixes[0] == "replace-op"


def test_an_answer_of_ours_is_judged_by_the_same_rule() -> None:
    said = {"verdict": "storage-bound", "first_fix": "shard", "problem": ""}
    assert judge(read("stoker", said), EXPECTED["c03"]) == ("cause", "right")
    said = {"verdict": "too-few-workers", "first_fix": "workers", "problem": ""}
    assert judge(read("stoker", said), EXPECTED["c03"]) == ("wrong cause", "harmful")
    said = {"verdict": "inconclusive", "first_fix": "none", "problem": ""}
    assert judge(read("stoker", said), EXPECTED["c03"])[0] == "none"


def test_a_tool_that_was_not_asked_or_gave_no_answer_is_said_to() -> None:
    assert peer_diagnoses.cell("spdl", None, EXPECTED["c01"]) == "not asked"
    told = peer_diagnoses.cell("spdl", {"problem": "no end after 240 s"}, EXPECTED["c01"])
    assert told == "no answer (no end after 240 s)"
    kept = {"c01": {"traceml": INPUT_BOUND}, "c03": {"traceml": {"problem": "no end"}}}
    row = peer_diagnoses.totals(kept, EXPECTED)
    assert row[3] == "1 side, 1 none; advice: 1 right, 1 none"


def test_where_stoker_was_not_asked_its_answer_in_case_verdicts_stands_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_diagnoses.record, "RESULTS", tmp_path)
    run = {"verdict": "cpu-saturated", "first_fix": "pack", "problem": ""}
    rows = {"c04": {"numbers": {"runs": [{"verdict": "error"}, run]}}}
    (tmp_path / "case_verdicts.json").write_text(json.dumps({"rows": rows}))
    asked = {"stoker": {"verdict": "host-sync", "first_fix": "sync-less"}}
    given = peer_diagnoses._with_known_verdicts({"c04": {}, "c28": asked})
    told = peer_diagnoses.cell("stoker", given["c04"]["stoker"], EXPECTED["c04"])
    assert told == "cpu-saturated, pack → **cause**; advice right (case_verdicts)"
    assert given["c28"] == asked
