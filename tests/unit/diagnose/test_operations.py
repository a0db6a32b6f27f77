"""Fixes of single operations: from what they are told to help, and where they are left out."""

from __future__ import annotations

import msgspec
import pytest

from stoker.diagnose.diagnosis import diagnose
from stoker.diagnose.operations import captured, decode_scale, kept_memory
from stoker.records.diagnosis import FixCode, RankedFix, VerdictCode
from stoker.records.profile import (
    THREADS,
    CandidateTrial,
    Decoded,
    Profile,
    SampleCost,
    StepInside,
    Unit,
)
from tests.unit.diagnose.profiles import about, case_of, profile, stage


def decoding(
    decoder: str = "decode (Pillow)", path: str = "a.jpg", size: int = 4_000_000
) -> Profile:
    """30 ms a sample, most of them for decoding a camera's JPEG to 224 x 224 pixels."""
    given = profile(
        real=0.25, device=0.08, contended=0.08, drain=0.25, loader=0.25, cpu=0.49, wait=0.17
    )
    loader = msgspec.structs.replace(given.loader, batch_bytes=16 * 602_112, samples=10**8)
    return msgspec.structs.replace(
        given,
        loader=loader,
        stages=(stage(decoder, 0.025), stage("crop (Pillow)", 0.004), stage("collate", 0.001)),
        slowest=(SampleCost(index=1, wall_s=0.03, cpu_s=0.03, path=path, size=size),),
    )


def fix_of(given: Profile, code: FixCode) -> RankedFix | None:
    return next((fix for fix in diagnose(given).fixes if fix.code is code), None)


@pytest.mark.parametrize(
    ("size", "scale"), [(4_000_000, 4), (20_000_000, 8), (500_000, 2), (100_000, None)]
)
def test_a_picture_is_decoded_as_small_as_its_bytes_allow(size: int, scale: int | None) -> None:
    """200,704 values of a sample are 200,704 pixels at most; a byte is two pixels or more."""
    assert decode_scale(case_of(decoding(size=size))) == scale


def counted(given: Profile, decoded: float, used: float | None) -> Profile:
    """The same with its pixels counted."""
    stages = ("decode (Pillow)",)
    pixels = Decoded(unit=Unit.PIXEL, stages=stages, decoded=decoded, used=used)
    return msgspec.structs.replace(given, decoded=(pixels,))


@pytest.mark.parametrize(
    ("decoded", "used", "scale"),
    [
        (12_000_000, 50_176, 8),
        (12_000_000, 500_000, 4),
        (250_000, 50_176, 2),
        (190_000, 50_176, None),  # not twice the sides
        (160_000, 50_176, None),  # decoded at a reduced scale already, of a file as large
        (12_000_000, None, 4),  # what is used is open: by bytes
    ],
)
def test_pixels_that_were_counted_go_before_those_that_bytes_let_expect(
    decoded: float, used: float | None, scale: int | None
) -> None:
    assert decode_scale(case_of(counted(decoding(), decoded, used))) == scale


def test_the_pixels_of_a_decoder_of_jpegs_need_no_file_name() -> None:
    for decoder, scale in (("decode (simplejpeg)", 8), ("decode (Pillow)", None)):
        given = counted(decoding(decoder, path="train.tar"), 12_000_000, 50_176)
        assert decode_scale(case_of(given)) == scale


def test_a_reduced_scale_is_advised_with_the_pixels_that_it_is_for() -> None:
    found = fix_of(counted(decoding(), 12_000_000, 50_176), FixCode.REDUCED_DECODE)
    assert found is not None
    assert found.title == "decode at 1/8 of the sides, from the file on"
    assert found.how.endswith("; now 12 megapixels are decoded for 0.0502 of a sample")
    assert diagnose(decoding()).verdict.code is VerdictCode.CPU_SATURATED


def test_large_jpegs_of_small_samples_are_decoded_at_a_reduced_scale() -> None:
    found = fix_of(decoding(), FixCode.REDUCED_DECODE)
    assert found is not None
    assert found.title == "decode at 1/4 of the sides, from the file on"
    assert "image.draft" in found.how
    other = fix_of(decoding("decode (OpenCV)"), FixCode.REDUCED_DECODE)
    assert other is not None and "IMREAD_REDUCED_COLOR_4" in other.how


@pytest.mark.parametrize(
    "given",
    [
        decoding(path="a.png"),
        decoding(size=100_000),
        decoding("decode (torchvision)"),
        decoding("Photos.decode"),
    ],
    ids=["no JPEG", "small", "a library that can't", "no library"],
)
def test_what_cannot_be_decoded_smaller_is_not_told_to(given: Profile) -> None:
    assert fix_of(given, FixCode.REDUCED_DECODE) is None


def test_the_dearest_operation_is_named_without_a_number_and_behind_the_others() -> None:
    fixes = diagnose(decoding()).fixes
    codes = [fix.code for fix in fixes]
    (found,) = [fix for fix in fixes if fix.code is FixCode.REPLACE_OP]
    assert "decode (Pillow) takes 82% of the work on a sample: simplejpeg" in found.how
    assert found.speedup is None and "depends on" in found.withheld
    assert codes.index(FixCode.REPLACE_OP) > codes.index(FixCode.REDUCED_DECODE)


def test_no_operation_is_named_where_none_stands_out() -> None:
    stages = tuple(stage(f"step {number}", 0.006) for number in range(5))
    even = msgspec.structs.replace(decoding(), stages=(*stages, stage("collate", 0.03)))
    assert fix_of(even, FixCode.REPLACE_OP) is None


def test_what_a_trial_gave_stands_beside_a_fix_that_promises_nothing() -> None:
    tried = CandidateTrial(name="allocator", speedup=about(1.2, 0.02), steps=40)
    found = fix_of(msgspec.structs.replace(decoding(), candidates=(tried,)), FixCode.ALLOCATOR)
    assert found is not None
    assert found.speedup is None and found.measured == tried.speedup


def test_memory_is_kept_by_worker_processes_whose_samples_are_large() -> None:
    assert kept_memory(case_of(decoding())) is not None
    for changes in ({"start_method": THREADS}, {"workers": 0}, {"batch_bytes": 16 * 1000}):
        given = decoding("read (NumPy)")
        other = msgspec.structs.replace(given.loader, **changes)
        assert kept_memory(case_of(msgspec.structs.replace(given, loader=other))) is None


def test_a_recorded_step_is_what_the_device_takes_without_the_launches() -> None:
    given = profile(real=0.102, device=0.1, contended=0.1, drain=0.1, loader=0.03, cpu=0.05)
    environment = msgspec.structs.replace(given.environment, device="emulated", emulated=True)
    inside = StepInside(samples=100, library=0.9, blocked=0.1)
    launching = msgspec.structs.replace(given, environment=environment, inside=inside)
    after = captured(case_of(launching))
    assert after is not None
    assert after.workload.device_s.median == pytest.approx(0.1 * (1 - 0.9 * 0.95))
    found = diagnose(launching)
    assert found.verdict.code is VerdictCode.OVERHEAD_BOUND
    assert [fix.code for fix in found.fixes] == [FixCode.LARGER_BATCH, FixCode.GRAPH_CAPTURE]
    assert captured(case_of(msgspec.structs.replace(given, inside=inside))) is None, "no device"
