"""Every fix of the table keeps the promises of the table, whatever it is applied to."""

from __future__ import annotations

import itertools
import math

import msgspec
import pytest

from stoker.diagnose.case import Case
from stoker.diagnose.diagnosis import diagnose
from stoker.diagnose.facts import facts_of
from stoker.diagnose.fixes import FIXES, Fix
from stoker.diagnose.ranking import rank
from stoker.records.diagnosis import FixCode, VerdictCode
from stoker.records.profile import Profile
from stoker.theory.calibrate import scenario_from
from stoker.theory.pipeline import gain
from tests.unit.diagnose.profiles import profile

DONTS_ONLY = {
    FixCode.SMALLER_MODEL,
    FixCode.LOWER_RESOLUTION,
    FixCode.FASTER_ACCELERATOR,
    FixCode.BIGGER_BATCH,
}


def serial() -> Profile:
    return profile(real=0.18, device=0.08, wait=0.1, loader=0.1, cpu=0.1, workers=0)


def starved() -> Profile:
    given = profile(
        real=0.25, device=0.08, contended=0.08, drain=0.25, loader=0.25, cpu=0.4, queued=0.09
    )
    loader = msgspec.structs.replace(
        given.loader, random_share=0.3, random_op="crop", sample_s=0.02, collate_s=0.05
    )
    return msgspec.structs.replace(given, loader=loader)


def case_of(given: Profile) -> Case:
    facts = facts_of(given)
    assert facts is not None
    return Case(facts, scenario_from(given))


CASES = [pytest.param(case_of(serial()), id="serial"), pytest.param(case_of(starved()), id="busy")]


def test_no_code_stands_twice_in_the_table_and_none_that_is_a_dont() -> None:
    codes = [fix.code for fix in FIXES]
    assert len(codes) == len(set(codes))
    assert not set(codes) & (DONTS_ONLY | {FixCode.NONE})


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("fix", FIXES, ids=[fix.code for fix in FIXES])
def test_a_fix_gives_a_scenario_that_can_be_forecast_or_nothing(fix: Fix, case: Case) -> None:
    after = fix.after(case)
    if after is not None:
        speedup = gain(case.scenario, after)
        assert math.isfinite(speedup.median)
        assert 0 < speedup.low <= speedup.median <= speedup.high


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("fix", FIXES, ids=[fix.code for fix in FIXES])
def test_a_fix_leaves_the_scenario_it_was_given_alone(fix: Fix, case: Case) -> None:
    before = msgspec.json.encode(case.scenario)
    fix.after(case)
    assert msgspec.json.encode(case.scenario) == before


@pytest.mark.parametrize("fix", FIXES, ids=[fix.code for fix in FIXES])
def test_a_fix_says_how_and_what_it_costs(fix: Fix) -> None:
    how = fix.how if isinstance(fix.how, str) else fix.how(case_of(starved()))
    assert how and fix.title and fix.costs
    assert fix.effort in (1, 2, 3)


@pytest.mark.parametrize("verdict", VerdictCode, ids=list(VerdictCode))
@pytest.mark.parametrize("case", CASES)
def test_fixes_are_ranked_by_gain_for_every_verdict(case: Case, verdict: VerdictCode) -> None:
    ranked = rank(case, verdict)
    if verdict is VerdictCode.SERIAL_LOADER:  # its own fix comes first, whatever others would give
        ranked = ranked[1:]
    gains = [fix.speedup.median for fix in ranked if fix.speedup is not None]
    # equal gains (within 3 %) stand in the order of effort
    assert all(first >= 0.97 * second for first, second in itertools.pairwise(gains))


def test_a_healthy_run_is_offered_nothing() -> None:
    healthy = profile(real=0.102, device=0.1, contended=0.1, drain=0.1, loader=0.03, cpu=0.05)
    assert diagnose(healthy).fixes == ()
