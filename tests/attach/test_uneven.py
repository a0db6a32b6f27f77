"""Uneven loaders and fixed costs in real runs: what is simulated, and what two sizes tell."""

from __future__ import annotations

import pytest

from stoker.diagnose.diagnosis import diagnose
from stoker.diagnose.facts import facts_of
from stoker.records.diagnosis import FixCode, VerdictCode
from tests.attach.examined import watch

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("in_folder")]


def test_a_deeper_queue_is_promised_what_the_runs_own_batches_give() -> None:
    """Batches of 8 ms, one in ten of 300: two workers need 19 ms for one, the step 50."""
    profile = watch("uneven.py", budget_s=24.0)

    assert profile.batches is not None
    assert len(profile.batches.seconds) > 100
    slow = [seconds for seconds in profile.batches.seconds if seconds > 0.25]
    assert 0.04 < len(slow) / len(profile.batches.seconds) < 0.2
    diagnosis = diagnose(profile)
    assert diagnosis.verdict.code is VerdictCode.VARIANCE_STALLS
    fix = {fix.code: fix for fix in diagnosis.fixes}[FixCode.PREFETCH_DEPTH]
    assert fix.speedup is not None, fix.withheld
    # At most the step itself is left: it is what no queue makes shorter.
    assert 1.05 < fix.speedup.median < 1.1 * profile.legs["R"].period.median / 0.05


@pytest.mark.parametrize(("samples", "is_tried"), [(200_008, True), (200_000, False)])
def test_a_step_is_tried_on_half_a_batch_where_the_script_has_smaller_ones(
    samples: int, is_tried: bool
) -> None:
    profile = watch("sized.py", samples, budget_s=8.0)

    assert diagnose(profile).verdict.code is VerdictCode.OVERHEAD_BOUND
    assert (profile.by_size is not None) == is_tried
    if profile.by_size is None:
        return
    assert (profile.by_size.samples, profile.by_size.half_samples) == (16, 8)
    # The launches take as much longer as other processes have the core.
    assert profile.by_size.whole.median > 0.95 * 0.0136
    facts = facts_of(profile)
    assert facts is not None and facts.fixed_share is not None
    assert facts.fixed_share.high > 0.8
    fixes = {fix.code: fix for fix in diagnose(profile).fixes}
    promised = fixes[FixCode.LARGER_BATCH].speedup
    # Of 13.6 ms 12 stay: four times the batch takes 18.4, where the machine is quiet.
    assert promised is None or 2.2 < promised.median < 4.0
