"""What another queue is promised to give: the run's own batches, simulated, or no number at all."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from stoker.diagnose.diagnosis import diagnose
from stoker.diagnose.facts import facts_of
from stoker.diagnose.prescribe import prescribe
from stoker.diagnose.queueing import deeper
from stoker.records.codec import from_json, to_json
from stoker.records.diagnosis import SCHEMA, Diagnosis, FixCode, RankedFix, VerdictCode
from stoker.records.profile import BatchTimes, EpochFacts, Profile
from stoker.remedy.request import Request
from stoker.report.view import view
from stoker.theory.queue import LoaderRun, loader_run
from tests.unit.diagnose.profiles import about, profile

CASES = Path(__file__).parents[2] / "cases"
STEP_S = 0.04


@cache
def batches(count: int, *, seed: int = 2) -> tuple[float, ...]:
    """One worker's seconds: 18 ms, and 280 for one batch in ten."""
    slow = np.random.default_rng(seed).random(count) < 0.1
    return tuple(0.28 if is_slow else 0.018 for is_slow in slow)


@cache
def truth(prefetch_factor: int = 2, *, in_order: bool = True) -> LoaderRun:
    """What many such batches give in a queue of two workers."""
    costs = batches(20_000, seed=0)
    return loader_run(
        costs, [STEP_S], workers=2, prefetch_factor=prefetch_factor, in_order=in_order
    )


def uneven(timed: tuple[float, ...] | None = None, **loader: Any) -> Profile:
    """A run of two workers with those batches, as a long simulation of it says."""
    seen = truth()
    given = profile(
        real=seen.step_s,
        device=STEP_S,
        contended=STEP_S,
        drain=0.022,
        loader=0.022,
        cpu=0.044,
        wait=seen.wait_s,
        longest_wait_s=0.25,
        batches=BatchTimes(workers=2, seconds=batches(600) if timed is None else timed),
    )
    changed = msgspec.structs.replace(given.loader, **loader)
    return msgspec.structs.replace(given, loader=changed, waits=about(seen.wait_s, 0.2))


def fixes_of(given: Profile) -> dict[FixCode, RankedFix]:
    diagnosis = diagnose(given)
    assert diagnosis.verdict.code is VerdictCode.VARIANCE_STALLS
    return {fix.code: fix for fix in diagnosis.fixes}


def test_a_deeper_queue_and_any_order_are_promised_what_they_give() -> None:
    fixes = fixes_of(uneven())
    deep, loose = truth(8), truth(in_order=False)
    for code, then in ((FixCode.PREFETCH_DEPTH, deep), (FixCode.UNORDERED, loose)):
        promised = fixes[code].speedup
        assert promised is not None and promised.is_promise
        assert promised.low <= truth().step_s / then.step_s <= promised.high
        assert promised.count == 600
        assert fixes[code].withheld == ""
    assert fixes[FixCode.PREFETCH_DEPTH].memory_bytes == 2 * (8 - 2) * 1_000_000
    assert prescribe(diagnose(uneven())).requests == (Request("prefetch-depth", 8),)


def test_the_ladder_has_both_queues_and_says_what_they_rest_on() -> None:
    diagnosis = diagnose(uneven())
    assert diagnosis.outlook is not None
    (rung, *others) = diagnosis.outlook.ladder
    assert rung.code is FixCode.PREFETCH_DEPTH
    assert [other.code for other in others] in ([], [FixCode.UNORDERED])
    assert rung.step_s.median < 1.1 * STEP_S
    assert "Simulated with 600 of its own batches" in diagnosis.outlook.sentence
    again = from_json(to_json(diagnosis), Diagnosis, source="test", schema=SCHEMA)
    assert again == diagnosis
    shown = view(diagnosis)
    assert shown.fixes[0].promise.endswith("forecast")
    assert "about 12.0 MB of memory" in shown.fixes[0].costs
    assert [row.code for row in shown.ladder][:2] == ["as it is", "+ prefetch-depth"]


def test_a_queue_that_does_not_come_out_as_it_was_measured_is_promised_nothing() -> None:
    """Batches that are all alike stall nothing: what was waited for must be something else."""
    for fix in fixes_of(uneven((0.044,) * 600)).values():
        assert fix.speedup is None
        assert fix.withheld.startswith("simulated with 600 of its own batches the loop would wait")
        assert fix.withheld.endswith("only a trial shows it: stoker doctor --try")


def test_the_further_a_simulation_is_off_the_wider_is_its_promise() -> None:
    near = fixes_of(uneven())[FixCode.PREFETCH_DEPTH].speedup
    given = uneven()
    # As many waits, beside a step whose own length nobody explains.
    longer = about(1.1 * given.legs["R"].period.median)
    legs = {"R": msgspec.structs.replace(given.legs["R"], period=longer)}
    off = msgspec.structs.replace(given, real=longer, legs=given.legs | legs)
    far = fixes_of(off)[FixCode.PREFETCH_DEPTH].speedup
    assert near is not None
    assert far is None or far.high - far.low > near.high - near.low


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        pytest.param({"batches": None}, "no single batches were timed", id="untimed"),
        pytest.param(
            {"batches": BatchTimes(workers=2, seconds=batches(60))},
            "60 single batches were timed, and 96 would tell",
            id="too few",
        ),
        pytest.param(
            {"epochs": EpochFacts(batches=50, boundaries=0, edge_s=None, start_s=0.1)},
            "an epoch of 50 batches is over before such a queue is in its stride",
            id="short epochs",
        ),
    ],
)
def test_where_nothing_can_be_simulated_it_says_why(given: dict[str, Any], reason: str) -> None:
    fixes = fixes_of(msgspec.structs.replace(uneven(), **given))
    assert list(fixes) == [FixCode.PREFETCH_DEPTH, FixCode.UNORDERED]
    for fix in fixes.values():
        assert fix.speedup is None
        assert fix.withheld == f"{reason}; only a trial shows it: stoker doctor --try"


def test_other_processes_keep_a_simulation_from_being_a_promise() -> None:
    given = uneven()
    crowded = msgspec.structs.replace(given.host, cores_owned=4.0, foreign_cores=1.1)
    diagnosis = diagnose(msgspec.structs.replace(given, host=crowded))
    for fix in diagnosis.fixes:
        assert fix.speedup is None
    assert diagnosis.outlook is None


def test_a_loader_that_has_no_order_is_offered_none() -> None:
    assert FixCode.UNORDERED not in fixes_of(uneven(in_order=False))
    assert FixCode.UNORDERED in fixes_of(uneven())


@pytest.mark.parametrize(
    ("free", "depth"), [(None, 8), (100_000_000, 8), (20_000_000, 5), (1_000_000, 2)]
)
def test_a_queue_is_no_deeper_than_shared_memory_has_room(free: int | None, depth: int) -> None:
    """Two workers with batches of 1 MB each; half of what is free is anybody's."""
    given = uneven()
    host = msgspec.structs.replace(given.host, shm_free_bytes=free)
    facts = facts_of(msgspec.structs.replace(given, host=host))
    assert facts is not None
    assert deeper(facts) == depth
    fixes = fixes_of(msgspec.structs.replace(given, host=host))
    assert (FixCode.PREFETCH_DEPTH in fixes) == (depth > 2)


def test_micro_batches_are_simulated_one_by_one() -> None:
    """Four batches of 10 ms a step of 40: the step is four times what a batch takes."""
    quarters = tuple(seconds / 4 for seconds in batches(600))
    promised = fixes_of(uneven(quarters, batches_per_step=4.0))[FixCode.PREFETCH_DEPTH].speedup
    assert promised is not None
    assert promised == fixes_of(uneven())[FixCode.PREFETCH_DEPTH].speedup


def test_the_case_of_uneven_documents_gains_what_was_measured() -> None:
    """Case c27's own documents (2.3 ms a page, one in eighty of 113 pages), eight a batch."""
    expected = json.loads((CASES / "expected.json").read_text())["c27"]
    rng = np.random.default_rng(7)
    pages = np.ones(2400)
    pages[rng.choice(2400, 2400 // 80, replace=False)] = 113
    shuffled = np.concatenate([rng.permutation(pages) for _ in range(40)])
    costs = 0.0023 * shuffled.reshape(-1, 8).sum(axis=1)
    now = loader_run(costs, [expected["device_step_ms"] / 1000], workers=2)
    # Measured with the beginnings of epochs, which are not simulated.
    assert now.step_s * 1000 == pytest.approx(expected["true_step_ms"], rel=0.05)
    given = uneven(tuple(costs[:500]))
    step, wait = about(now.step_s), about(now.wait_s, 0.2)
    legs = {"R": msgspec.structs.replace(given.legs["R"], period=step)}
    run = msgspec.structs.replace(given, real=step, legs=given.legs | legs, waits=wait)
    promised = fixes_of(run)[FixCode.PREFETCH_DEPTH].speedup
    assert promised is not None
    low, high = expected["expected_speedup_of_first_fix"]
    assert low <= promised.median <= high
