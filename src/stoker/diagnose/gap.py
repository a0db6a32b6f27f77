"""The verdict on a loop without a loader: from its steps and the gaps between them alone.

Nothing was put in the place of its batches, so nothing was tried: what the device would do without
the gap is an estimate, and where the device works on by itself not even that.
"""

from __future__ import annotations

import math

from stoker.diagnose.judgement import row
from stoker.diagnose.wording import ms, percent
from stoker.records.diagnosis import (
    Evidence,
    FixCode,
    LedgerRow,
    Part,
    RankedFix,
    Verdict,
    VerdictCode,
)
from stoker.records.profile import Gap, Profile
from stoker.stats import Spread, difference, ratio

# As for loops with a loader: what hand-off alone costs, and no fix of loading could win more.
_INNOCENT = 0.05
# Losses, gradients set to zero and logging are outside of the model too: 2 % of a step of 40 ms on
# idle cores, 7 % on busy ones. What is said never claims more than what was seen.
_OUTSIDE = 0.10
# Logging, clipping and setting gradients to zero lie in the gap as well; they take less than this.
_GUILTY = 0.15
# With fewer samples of the stack a twentieth of the time may be missed altogether.
_FEWEST_SAMPLES = 200
_FEWEST_STEPS = 20
_MARK = "for batch in stoker.watch(batches) around the loop lets the doctor try it"


def judge_gap(profile: Profile) -> tuple[Verdict, tuple[LedgerRow, ...], tuple[RankedFix, ...]]:
    """Verdict, ledger and fixes for a profile that has leg R and a gap."""
    gap, real = profile.gap, profile.legs["R"].period
    assert gap is not None
    share = ratio(gap.seconds, real)
    code, sentence = _judged(profile, gap, real, share)
    verdict = Verdict(code=code, sentence=sentence, lost_share=share, evidence=_evidence(gap, real))
    rest = difference(real, gap.seconds)
    rows = tuple(
        LedgerRow(part=part, seconds=seconds.median, low=seconds.low, high=seconds.high, leg="R")
        for part, seconds in ((Part.DEVICE, rest), (Part.SERIAL, gap.seconds))
    )
    return verdict, rows, (_OVERLAP,) if code is VerdictCode.SERIAL_LOADER else ()


def _judged(profile: Profile, gap: Gap, real: Spread, share: Spread) -> tuple[VerdictCode, str]:
    steps = profile.legs["R"].steps
    if steps < _FEWEST_STEPS or gap.samples < _FEWEST_SAMPLES:
        return VerdictCode.INCONCLUSIVE, (
            f"No loader was found in this loop, and only {steps} of its steps were seen, with "
            f"{gap.samples} samples of its stack: too few to tell. About "
            f"{_steps_missing(steps, gap.samples)} more steps would. "
            "Give the script more of them, or stoker more time (--budget)."
        )
    if profile.environment.world > 1:
        return VerdictCode.INCONCLUSIVE, (
            f"No loader was found in this loop, and it is one of {profile.environment.world} that "
            f"meet in each step: who waits for whom can't be told from its steps alone. {_MARK}."
        )
    if share.high <= _INNOCENT and gap.outside <= _OUTSIDE:
        return VerdictCode.DEVICE_BOUND, (
            f"No loader was found in this loop. Of each step of {ms(real)} the host spends "
            f"{ms(gap.seconds)} between the optimizer's step and the next forward pass, and "
            f"{percent(gap.outside)} outside of the model in all: no fix of loading could win more."
        )
    where = _where(gap)
    if profile.environment.device != "cpu":
        return VerdictCode.INCONCLUSIVE, (
            f"No loader was found in this loop. The host spends {percent(gap.outside)} of each "
            f"step of {ms(real)} outside of the model{where}, but the device works on by itself "
            f"meanwhile: whether it waits can't be told from here. {_MARK}."
        )
    if share.low >= _GUILTY:
        return VerdictCode.SERIAL_LOADER, (
            f"No loader was found in this loop. Of each step of {ms(real)}, {ms(gap.seconds)} pass "
            f"between the optimizer's step and the next forward pass{where}: what is done there "
            "runs inside the training process, and the model waits for it. The model alone was "
            f"not measured; {_MARK}."
        )
    return VerdictCode.INCONCLUSIVE, (
        f"No loader was found in this loop. The host spends {percent(gap.outside)} of each step "
        f"of {ms(real)} outside of the model{where}, {ms(gap.seconds)} of it before the forward "
        f"pass. Whether that is loading can't be told from here: {_MARK}."
    )


def _steps_missing(steps: int, samples: int) -> int:
    """Until there are enough of both, at as many samples a step as there were."""
    sampled = math.ceil(_FEWEST_SAMPLES * steps / max(1, samples))
    return max(_FEWEST_STEPS, sampled) - steps


def _where(gap: Gap) -> str:
    if not gap.places:
        return ""
    place = gap.places[0]
    return f", mostly in {place.function} ({place.file.rpartition('/')[2]}:{place.line})"


def _evidence(gap: Gap, real: Spread) -> tuple[Evidence, ...]:
    against = f"R {ms(real)}"
    return (
        row("from the optimizer's step to the next forward pass", gap.seconds, against, "R"),
        row("the host outside of the model", gap.outside, "samples of its stack", "R", "share"),
    )


_OVERLAP = RankedFix(
    code=FixCode.OVERLAP,
    title="make the next batch while the step runs",
    speedup=None,  # the model alone was not measured
    how="a DataLoader with workers over the function that makes batches, or a thread of its own",
    costs="memory of the worker processes",
    preconditions=("the next batch does not depend on this step",),
    effort=2,
)
