"""What is decoded and thrown away: the verdict it gives, its fixes, and where it is no cause."""

from __future__ import annotations

import ast
from typing import Any

import msgspec
import pytest

from stoker.diagnose.changes import read_once, rechunked
from stoker.diagnose.diagnosis import diagnose
from stoker.diagnose.prescribe import prescribe
from stoker.diagnose.waste import find_waste
from stoker.records.diagnosis import Diagnosis, FixCode, RankedFix, VerdictCode
from stoker.records.profile import Decoded, Profile, Unit
from stoker.records.scenario import Resource, Scenario
from tests.unit.diagnose.profiles import case_of, profile
from tests.unit.diagnose.test_operations import stage

DECODER = "decode (OpenCV video)"


def clips(
    decoded: float = 250,
    used: float | None = 16,
    *,
    unit: Unit = Unit.FRAME,
    share: float = 0.9,
    cpu: float = 0.49,
    workers: int = 2,
) -> Profile:
    """Two workers make a batch in 250 ms, most of it in a decoder; the step takes 80."""
    known: dict[str, Any] = {"real": 0.25, "device": 0.08, "loader": 0.25, "cpu": cpu}
    if workers:
        known |= {"contended": 0.08, "drain": 0.25}
    given = profile(**known, wait=0.17, workers=workers)
    each = 0.25 * 2 / 16
    blocked = 1 - cpu / 0.5
    where = "worker" if workers else "main"
    seconds = {DECODER: each * share, "resize (OpenCV)": each * (1 - share)}
    return msgspec.structs.replace(
        given,
        stages=tuple(
            stage(name, wall, where=where, cpu_s=wall * (1 - blocked), blocked_s=wall * blocked)
            for name, wall in seconds.items()
        ),
        decoded=(Decoded(unit=unit, stages=(DECODER,), decoded=decoded, used=used),),
    )


def fix_of(given: Diagnosis, code: FixCode) -> RankedFix:
    return next(fix for fix in given.fixes if fix.code is code)


def test_frames_that_are_thrown_away_are_an_amplification_with_the_numbers_told() -> None:
    verdict = diagnose(clips()).verdict
    assert verdict.code is VerdictCode.READ_AMPLIFICATION
    assert verdict.kind == "frames"
    assert "250 video frames are decoded and 16 used, 15.6 times as many" in verdict.sentence
    assert "84% of a sample's time" in verdict.sentence
    told = {row.claim: row for row in verdict.evidence}
    row = told["video frames decoded for each that is used"]
    assert (row.measured.median, row.compared_with) == (15.625, "250 for 16 a sample")
    assert told["share of a sample's time for those thrown away"].compared_with == f"in {DECODER}"


@pytest.mark.parametrize(
    ("unit", "kind", "title"),
    [
        (Unit.FRAME, "frames", "decode only the frames that are used"),
        (Unit.AUDIO_FRAME, "audio", "decode only the stretch that is used"),
        (Unit.ROW, "rows", "take all that is needed from a group while it is unpacked"),
    ],
)
def test_the_first_fix_is_to_read_only_what_is_used(unit: Unit, kind: str, title: str) -> None:
    given = diagnose(clips(240_000, 8_000, unit=unit))
    assert given.verdict.kind == kind
    assert [fix.code for fix in given.fixes] == [FixCode.ACCESS_PATTERN, FixCode.RECHUNK]
    assert given.fixes[0].title == title
    assert "240,000" in given.verdict.sentence


def test_a_process_that_loads_by_itself_is_told_the_same() -> None:
    assert diagnose(clips(workers=0)).verdict.code is VerdictCode.READ_AMPLIFICATION


@pytest.mark.parametrize(
    "given",
    [
        clips(100, 16),  # every sixth frame of a clip
        clips(share=0.4),  # most of the time goes elsewhere
        clips(used=None),
        clips(12_000_000, 50_176, unit=Unit.PIXEL),  # resizing is no waste
    ],
    ids=["few", "little of the time", "nobody knows", "pixels"],
)
def test_what_is_no_waste_or_costs_little_is_none(given: Profile) -> None:
    assert find_waste(case_of(given).facts) is None
    assert diagnose(given).verdict.code is VerdictCode.CPU_SATURATED


def test_bytes_read_too_often_are_told_beside_it() -> None:
    given = clips(500, 1, unit=Unit.ROW)
    both = msgspec.structs.replace(
        given, loader=msgspec.structs.replace(given.loader, read_amplification=70.0)
    )
    verdict = diagnose(both).verdict
    assert "500 rows are decoded and 1 used" in verdict.sentence
    assert "bytes read for one byte of a sample" in {row.claim for row in verdict.evidence}


# -- what the fixes leave --------------------------------------------------------------------------


def cost(scenario: Scenario | None, name: str, resource: Resource = Resource.CORES) -> float:
    assert scenario is not None
    return sum(
        one.per_sample.median
        for one in scenario.workload.stages
        if (one.stage, one.resource) == (name, resource)
    )


def test_only_what_decodes_gets_cheaper_by_what_is_used_of_it() -> None:
    case = case_of(clips(250, 25, cpu=0.25))
    after = rechunked(case)
    for resource in (Resource.CORES, Resource.STORAGE):
        now = cost(case.scenario, DECODER, resource)
        assert now > 0
        assert cost(after, DECODER, resource) == pytest.approx(now / 10)
    resizing = "resize (OpenCV)"
    assert cost(after, resizing) == pytest.approx(cost(case.scenario, resizing))


def test_frames_from_the_key_frame_on_are_decoded_whatever_is_sought() -> None:
    case = case_of(clips(1_000, 20))
    sought = read_once(case)
    now = cost(case.scenario, DECODER)
    assert cost(sought, DECODER) == pytest.approx(now * 47 / 1_000, rel=0.1)
    assert sought is not None
    high, before = (
        next(one.per_sample.high for one in scenario.workload.stages if one.stage == DECODER)
        for scenario in (sought, case.scenario)
    )
    assert high == pytest.approx(before * 145 / 1_000), "250 frames between two key frames"
    audio = case_of(clips(1_000, 20, unit=Unit.AUDIO_FRAME))
    assert read_once(audio) == rechunked(audio), "audio can be read from anywhere"


def test_a_seek_whose_gain_hangs_on_the_key_frames_has_no_number_and_says_so() -> None:
    given = diagnose(clips(140, 16, share=0.95))
    sought = fix_of(given, FixCode.ACCESS_PATTERN)
    assert sought.speedup is None
    assert "how far apart key frames are" in sought.withheld
    promised = fix_of(given, FixCode.RECHUNK).speedup
    assert promised is not None
    # 250 ms become the 80 ms of the device, which the decoder then outpaces.
    assert promised.median == pytest.approx(0.25 / 0.08, rel=0.05)


def test_the_code_that_is_shown_is_for_what_is_wasted() -> None:
    for unit, word in ((Unit.FRAME, "CAP_PROP_POS_FRAMES"), (Unit.AUDIO_FRAME, "start=first")):
        code = "\n".join(prescribe(diagnose(clips(1_000, 20, unit=unit))).by_hand)
        assert word in code
        ast.parse(code)
    rows = "\n".join(prescribe(diagnose(clips(1_000, 20, unit=Unit.ROW))).by_hand)
    assert "class ByGroup" in rows
