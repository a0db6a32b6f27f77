"""The step at two batch sizes: what of it is fixed, and what a larger batch would give."""

from __future__ import annotations

import msgspec
import pytest

from stoker.diagnose.diagnosis import diagnose
from stoker.diagnose.facts import facts_of
from stoker.records.diagnosis import FixCode, VerdictCode
from stoker.records.profile import Profile, StepBySize, StepInside
from stoker.stats import Spread
from tests.unit.diagnose.profiles import about, profile

LAUNCHING = StepInside(samples=100, library=0.95, blocked=0.05)


def launching(half_s: float | None, *, share: float = 0.005) -> Profile:
    """An emulated device with a step of 40 ms, of which the host launches for 38."""
    found = profile(real=0.041, device=0.040, loader=0.002, cpu=0.001, inside=LAUNCHING)
    environment = msgspec.structs.replace(found.environment, device="emulated", emulated=True)
    sizes = None
    if half_s is not None:
        sizes = StepBySize(
            samples=16, half_samples=8, whole=about(0.040, share), half=about(half_s, share)
        )
    return msgspec.structs.replace(found, environment=environment, by_size=sizes)


def fixed_share(half_s: float, *, share: float = 0.005) -> Spread | None:
    facts = facts_of(launching(half_s, share=share))
    assert facts is not None
    return facts.fixed_share


@pytest.mark.parametrize(("half_s", "expected"), [(0.040, 1.0), (0.039, 0.95), (0.030, 0.5)])
def test_a_line_through_two_sizes_tells_what_is_fixed(half_s: float, expected: float) -> None:
    found = fixed_share(half_s)
    assert found is not None
    assert found.median == pytest.approx(expected)
    assert found.low <= expected <= found.high <= 1.0


def test_an_unequal_half_is_half_of_what_it_holds() -> None:
    """Two of five samples: t = 10 + 6 n takes 22 and 40 ms."""
    given = launching(0.022)
    assert given.by_size is not None
    sizes = msgspec.structs.replace(given.by_size, samples=5, half_samples=2)
    facts = facts_of(msgspec.structs.replace(given, by_size=sizes))
    assert facts is not None and facts.fixed_share is not None
    assert facts.fixed_share.median == pytest.approx(0.25)


def test_half_a_batch_that_takes_next_to_nothing_was_left_out_by_the_script() -> None:
    assert fixed_share(0.001) is None
    assert fixed_share(0.0199) is not None  # all of it grows with the batch


def test_a_step_that_stays_the_same_on_half_a_batch_is_a_fixed_cost() -> None:
    verdict = diagnose(launching(0.0395)).verdict
    assert verdict.code is VerdictCode.OVERHEAD_BOUND
    assert "with 8 samples in place of 16 it takes 39.5 ms in place of 40.0 ms" in verdict.sentence
    (row,) = (row for row in verdict.evidence if row.leg == "F")
    assert row.measured.median == pytest.approx(0.975)


def test_launches_that_shrink_with_the_batch_are_no_fixed_cost() -> None:
    """The host works on each sample: a larger batch would take as much longer."""
    assert diagnose(launching(0.021)).verdict.code is VerdictCode.DEVICE_BOUND


def test_without_a_second_size_the_host_alone_speaks_and_it_is_said() -> None:
    for given in (launching(None), launching(0.001)):
        verdict = diagnose(given).verdict
        assert verdict.code is VerdictCode.OVERHEAD_BOUND
        assert "as far as one size of its batches tells" in verdict.sentence


def test_two_sizes_that_do_not_decide_leave_it_open() -> None:
    verdict = diagnose(launching(0.029, share=0.05)).verdict
    assert verdict.code is VerdictCode.OVERHEAD_BOUND
    assert "as far as two sizes of its batches tell" in verdict.sentence


def test_a_larger_batch_is_promised_what_the_line_gives() -> None:
    """Of 40 ms 35 stay: four times the batch takes 55 ms, 2.9 times the samples a second."""
    fixes = {fix.code: fix for fix in diagnose(launching(0.0375)).fixes}
    promised = fixes[FixCode.LARGER_BATCH].speedup
    assert promised is not None
    assert promised.median == pytest.approx(4 * 40 / 55, rel=0.05)
    unsure = {fix.code: fix for fix in diagnose(launching(0.0375, share=0.05)).fixes}
    assert unsure[FixCode.LARGER_BATCH].speedup is None
