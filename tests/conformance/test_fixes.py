"""Every fix of the table keeps the promises of the table, whatever it is applied to."""

from __future__ import annotations

import ast
import itertools
import math

import msgspec
import pytest

from stoker.diagnose.case import Case
from stoker.diagnose.diagnosis import diagnose
from stoker.diagnose.fixes import BY_CODE, FIXES, Fix
from stoker.diagnose.ranking import answers, rank
from stoker.records.diagnosis import FixCode, VerdictCode
from stoker.records.profile import Profile, ReadCost
from stoker.remedy.snippets import by_hand
from stoker.theory.calibrate import scenario_from
from stoker.theory.pipeline import gain
from stoker.theory.question import AboutMeasured
from tests.unit.diagnose.profiles import case_of, profile

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


CASES = [pytest.param(case_of(serial()), id="serial"), pytest.param(case_of(starved()), id="busy")]
# Fixes of the user's own code: not of settings, data on a disk, or machines.
CODE = {
    *(FixCode.PACK, FixCode.DEVICE_AUGMENT, FixCode.VECTORISE_COLLATE, FixCode.BATCHED_FETCH),
    *(FixCode.REOPEN_HANDLE, FixCode.ACCESS_PATTERN, FixCode.CACHE_RAM, FixCode.REDUCED_DECODE),
    *(FixCode.SMALLER_PAYLOAD, FixCode.SYNC_LESS, FixCode.HOST_WORK_LESS, FixCode.GRAPH_CAPTURE),
    *(FixCode.METRIC_ON_DEVICE, FixCode.FLAT_STORAGE),
}


def test_every_code_is_a_fix_of_the_table_once_but_don_ts_and_none() -> None:
    codes = [fix.code for fix in FIXES]
    assert len(codes) == len(set(codes))
    assert set(codes) == set(FixCode) - DONTS_ONLY - {FixCode.NONE}


def test_every_fix_of_the_table_answers_some_verdict() -> None:
    assert {code for verdict in VerdictCode for code in answers(verdict)} == set(BY_CODE)


def test_what_only_the_user_can_change_is_there_as_python() -> None:
    for code in CODE:
        ast.parse(by_hand(code))
    assert not [code for code in set(FixCode) - CODE if by_hand(code)]


@pytest.mark.parametrize(
    ("code", "change"), [(FixCode.PACK, "pack"), (FixCode.DEVICE_AUGMENT, "device-augment")]
)
def test_the_doctor_and_predict_forecast_one_change_alike(code: FixCode, change: str) -> None:
    seen = msgspec.structs.replace(
        starved(),
        reads=ReadCost(files=9, bytes_per_read=20_000.0, cold_s=None, warm_s=None, bytes_per_s=2e7),
    )
    case = case_of(seen)
    after = BY_CODE[code].after(case)
    assert after is not None
    asked = AboutMeasured(profile=seen, base=scenario_from(seen))
    assert gain(case.scenario, after).median > 1.05
    assert gain(case.scenario, after) == gain(asked.base, asked.changed(change).scenario())


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("fix", FIXES, ids=[fix.code for fix in FIXES])
def test_what_a_fix_is_charged_is_a_positive_number_or_unknown(fix: Fix, case: Case) -> None:
    charged = fix.charge(case)
    for number in (charged.memory_bytes, charged.disk_bytes, charged.minutes):
        assert number is None or (number > 0 and math.isfinite(number))


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
    case = case_of(starved())
    assert fix.how_for(case) and fix.title_for(case) and fix.costs
    assert fix.effort in (1, 2, 3)


@pytest.mark.parametrize("verdict", VerdictCode, ids=list(VerdictCode))
@pytest.mark.parametrize("case", CASES)
def test_fixes_are_ranked_by_gain_for_every_verdict(case: Case, verdict: VerdictCode) -> None:
    ranked = rank(case, verdict)
    if verdict is VerdictCode.SERIAL_LOADER:  # its own fix comes first, whatever others would give
        ranked = ranked[1:]
    # what never has a number stands behind all that may
    never = [fix.code in (FixCode.REPLACE_OP, FixCode.ALLOCATOR) for fix in ranked]
    assert never == sorted(never)
    gains = [fix.speedup.median for fix in ranked if fix.speedup is not None]
    # equal gains (within 3 %) stand in the order of effort
    assert all(first >= 0.97 * second for first, second in itertools.pairwise(gains))


def test_a_healthy_run_is_offered_nothing() -> None:
    healthy = profile(real=0.102, device=0.1, contended=0.1, drain=0.1, loader=0.03, cpu=0.05)
    assert diagnose(healthy).fixes == ()
