"""Evidence to verdict: what limits the run, and how we know.

The largest part of the ledger says where the time goes; the legs that isolate it say why. Causes
inside the step are weighed against it; the heaviest is the verdict, the others are told too. Where
the intervals can't tell, the verdict is inconclusive and says how much longer would tell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from stoker.diagnose.causes import find_starvation
from stoker.diagnose.facts import Facts
from stoker.diagnose.inside import find_inside
from stoker.diagnose.judgement import Finding, Judgement, Weighed, row
from stoker.diagnose.ledger import part
from stoker.diagnose.wording import cores, held_by_others, ms, percent
from stoker.records.diagnosis import Evidence, LedgerRow, Part, Verdict, VerdictCode
from stoker.records.profile import LegCode, Profile
from stoker.stats import WANTED_HALF_WIDTH, Spread

# Up to this share of the step the loader is innocent: it is what hand-off alone costs a healthy
# loader here (1 to 5 % over the control cases), and no fix of loading could win more.
INNOCENT_SHARE = 0.05
# Other processes on this share of the cores can cost a step as much as a loader that is a little
# too slow, and more in jitter: then only a large loss of another kind is a verdict.
_FOREIGN_SHARE = 0.15
# Workers that are kept from cores wait in the queue for one, this share of their time at least.
_QUEUED = 0.15
# As much again is let pass when no part but jitter explains it (6 % was seen on a healthy loader
# that uses two thirds of the cores).
_JITTER_SHARE = 0.12
# Alone it makes batches faster than the step takes them: waits of the loop for it are waits for a
# core that a worker is just leaving, up to a tick of the scheduler (4 ms of 84 were seen).
_KEEPS_UP = 0.95
# Parts that add up to the step and this share of it were not taken of one and the same machine:
# 9 % is the most that was seen on a machine at peace.
_TOO_MUCH = 0.25
# An innocent run whose interval reaches this far was not measured long enough to be acquitted.
_DOUBT_SHARE = 0.15
# A second cause is worth a word from this share of the step on.
_SECOND_SHARE = 0.10
# Below these counts nothing was seen: one round of batches more or less changes everything.
_FEWEST_REAL_STEPS = 6
_FEWEST_DEVICE_STEPS = 3

_LOSSES = (
    Part.SERIAL,
    Part.RATE_DEFICIT,
    Part.TRANSFER,
    Part.CONTENTION,
    Part.EPOCH_EDGE,
    Part.JITTER,
)


def judge(facts: Facts, rows: tuple[LedgerRow, ...]) -> Verdict:
    """The verdict with its evidence, and further causes by their weight."""
    seen = steps_seen(facts.profile)
    if seen[0] < _FEWEST_REAL_STEPS or seen[1] < _FEWEST_DEVICE_STEPS:
        return _verdict(facts, _too_short(*seen))
    loss = _loss(facts)
    inside, loading = find_inside(facts), _loading(facts, rows, loss)
    lost_s = max(0.0, loss.median) * facts.real.median
    is_acquitted = not loading and loss.high <= _DOUBT_SHARE
    if inside and (is_acquitted or inside[0].seconds > lost_s):
        return _verdict(facts, inside[0].judgement, [*inside[1:], *loading])
    if not loading:
        return _verdict(facts, _innocent(facts, loss), inside)
    return _verdict(facts, loading[0].judgement, [*loading[1:], *inside])


def steps_seen(profile: Profile) -> tuple[int, int]:
    """Steady steps of the loop as it is, and those on kept batches."""
    real, device = profile.leg(LegCode.REAL), profile.leg(LegCode.DEVICE)
    return real.steps if real is not None else 0, device.steps if device is not None else 0


def steps_missing(real: int, device: int) -> str:
    """How many more steps of which leg are the least that can tell, where so many were seen."""
    missing = {"R": _FEWEST_REAL_STEPS - real, "D": _FEWEST_DEVICE_STEPS - device}
    legs = [f"{count} more steps of leg {leg}" for leg, count in missing.items() if count > 0]
    return f"at least {' and '.join(legs)} would tell"


def _loading(facts: Facts, rows: tuple[LedgerRow, ...], loss: Spread) -> list[Weighed]:
    """What loading costs and why, the largest part first; empty where it is not to blame."""
    unnamed = {Part.JITTER, Part.RATE_DEFICIT} if _keeps_up(facts) else {Part.JITTER}
    named = sum(part(rows, name) for name in _LOSSES if name not in unnamed)
    # Jitter alone is no cause until it is large: it is also what a busy machine adds.
    is_jitter = named <= INNOCENT_SHARE * facts.real.median and loss.median <= _JITTER_SHARE
    if loss.median <= INNOCENT_SHARE or is_jitter:
        return []
    if loss.low <= 0:
        return [Weighed(_undecided(facts, loss), 0.0)]
    if part(rows, Part.JITTER) < -_TOO_MUCH * facts.real.median:
        return [Weighed(_contradictory(facts, -part(rows, Part.JITTER)), 0.0)]
    ranked = sorted(_LOSSES, key=lambda name: part(rows, name), reverse=True)
    findings = [
        Finding(name, part(rows, name), part(rows, name) / facts.real.median) for name in ranked
    ]
    first, *others = findings
    foreign = facts.foreign_cores
    is_small = loss.median <= _DOUBT_SHARE or first.part is Part.JITTER
    is_busy = foreign >= _FOREIGN_SHARE * facts.host.cores_owned
    if is_busy and (is_small or _is_crowded_out(facts, first.part, foreign)):
        return [Weighed(_disturbed(facts, loss, foreign), 0.0)]
    large = [finding for finding in others if finding.share >= _SECOND_SHARE]
    causes = find_starvation(facts, [first, *large])
    if causes[0].judgement.code is VerdictCode.INCONCLUSIVE:
        # A loader with time and cores to spare can be mended by nothing.
        if loss.median <= (_DOUBT_SHARE if _keeps_up(facts) else _JITTER_SHARE):
            return []
        if is_busy:
            return [Weighed(_disturbed(facts, loss, foreign), 0.0), *causes[1:]]
    return causes


def _keeps_up(facts: Facts) -> bool:
    """The workers make batches faster than the step takes them, with cores to spare."""
    alone, needed = facts.alone, facts.cores_needed
    if alone is None or not alone.workers or needed is None:
        return False
    is_fast = alone.period.median <= _KEEPS_UP * facts.device.median
    return is_fast and needed <= facts.cores_usable


def _is_crowded_out(facts: Facts, largest: Part, foreign: float) -> bool:
    """The workers would have cores enough for the device's pace, if others left them to the job."""
    needed, usable = facts.cores_needed, facts.cores_usable
    if largest not in (Part.RATE_DEFICIT, Part.CONTENTION) or needed is None:
        return False
    # Who waits for a disk does not wait for the cores that others hold.
    queued = facts.queued_share
    return needed <= usable < needed + foreign and queued is not None and queued >= _QUEUED


def _innocent(facts: Facts, loss: Spread) -> Judgement:
    """Neither loading nor anything inside the step is to blame: the device sets the pace."""
    if loss.high > _DOUBT_SHARE:
        return _undecided(facts, loss)
    if _ranks_seen(facts) < facts.profile.environment.world:
        return _one_of_many(facts)
    return _device_bound(facts, loss)


def _loss(facts: Facts) -> Spread:
    """Share of the step that the device does not take."""
    real, busy = facts.real, facts.device
    low = math.hypot(1 - real.low / real.median, busy.high / busy.median - 1)
    high = math.hypot(real.high / real.median - 1, 1 - busy.low / busy.median)
    ratio = busy.median / real.median
    return Spread(1 - ratio, 1 - ratio * (1 + low), 1 - ratio * (1 - min(1.0, high)), real.count)


def _verdict(facts: Facts, judgement: Judgement, others: Sequence[Weighed] = ()) -> Verdict:
    return Verdict(
        code=judgement.code,
        kind=judgement.kind,
        sentence=judgement.sentence,
        lost_share=facts.lost_share,
        evidence=(_test(facts), *_idle(facts), *judgement.evidence),
        secondary=_secondary(facts, judgement.code, others),
    )


def _secondary(
    facts: Facts, first: VerdictCode, others: Sequence[Weighed]
) -> tuple[VerdictCode, ...]:
    """Further causes that are worth a word, the heaviest first."""
    large = [other for other in others if other.seconds >= _SECOND_SHARE * facts.real.median]
    ranked = sorted(large, key=lambda other: -other.seconds)
    codes = dict.fromkeys(other.judgement.code for other in ranked)
    return tuple(code for code in codes if code not in (first, VerdictCode.INCONCLUSIVE))


def _test(facts: Facts) -> Evidence:
    """The fixed-batch test stands behind every verdict."""
    return Evidence(
        claim="the step on batches that are there already, against the real step",
        measured=facts.device,
        unit="s",
        compared_with=f"R {ms(facts.real)}",
        leg="D",
    )


def _idle(facts: Facts) -> tuple[Evidence, ...]:
    """What the device itself says of its time without work, where it does: it needs no leg D."""
    device = facts.profile.device
    if device is None or device.idle_s is None:
        return ()
    against = f"R - D {ms(facts.real.median - facts.device.median)}"
    if device.idle_alone_s is not None:
        against += f", D itself {ms(device.idle_alone_s)}"
    claim = "the device without work in a step, by its own account"
    return (row(claim, device.idle_s, against, "R"),)


def _device_bound(facts: Facts, loss: Spread) -> Judgement:
    evidence = [
        Evidence(
            claim="what better loading could win",
            measured=loss,
            unit="share",
            compared_with=f"innocent up to {percent(INNOCENT_SHARE)}",
            leg="R-D",
        )
    ]
    headroom = ""
    if facts.alone is not None:
        evidence.append(
            Evidence(
                claim="a batch from the loader alone",
                measured=facts.alone.period,
                unit="s",
                compared_with=f"D {ms(facts.device)}",
                leg="L",
            )
        )
        headroom = (
            f" The loader alone makes a batch in {ms(facts.alone.period)}: "
            f"{facts.device.median / facts.alone.period.median:.1f} times the pace it is asked for."
        )
    return Judgement(
        code=VerdictCode.DEVICE_BOUND,
        sentence=(
            f"The step takes {ms(facts.real)}, and {ms(facts.device)} of it on batches that are "
            f"there already: the device sets the pace, and no fix of loading could win more than "
            f"{percent(max(0.0, loss.median))}." + headroom
        ),
        evidence=tuple(evidence),
    )


def _disturbed(facts: Facts, loss: Spread, foreign: float) -> Judgement:
    return Judgement(
        code=VerdictCode.INCONCLUSIVE,
        sentence=(
            f"{percent(loss.median)} of the step is lost, but "
            f"{held_by_others(foreign, facts.host.cores_owned)} meanwhile, which alone may explain "
            "it. Measure again on an idle machine."
        ),
        evidence=(
            row(
                "cores that other processes kept busy",
                foreign,
                f"{cores(facts.host.cores_owned)} owned",
                "L",
                "cores",
            ),
        ),
    )


def _ranks_seen(facts: Facts) -> int:
    return max(1, len(facts.profile.ranks))


def _one_of_many(facts: Facts) -> Judgement:
    seen, world = _ranks_seen(facts), facts.profile.environment.world
    who = "This is one" if seen == 1 else f"These are {seen}"
    return Judgement(
        code=VerdictCode.INCONCLUSIVE,
        sentence=(
            f"{who} of {world} processes that meet in each step, "
            "and the others were not seen: whether the device or another rank's loader sets the "
            "pace can't be told from here. Run the doctor on the launcher: -- torchrun …"
        ),
        evidence=(),
    )


def _too_short(real: int, device: int) -> Judgement:
    return Judgement(
        code=VerdictCode.INCONCLUSIVE,
        sentence=(
            f"Only {real} steady steps of the loop and {device} on kept batches were seen; "
            f"{steps_missing(real, device)}. "
            "Give the script more steps or epochs, or stoker more time (--budget)."
        ),
        evidence=(),
    )


def _contradictory(facts: Facts, excess_s: float) -> Judgement:
    parts_s = facts.real.median + excess_s
    return Judgement(
        code=VerdictCode.INCONCLUSIVE,
        sentence=(
            f"The legs contradict each other: their parts add up to {ms(parts_s)}, and the step "
            f"takes {ms(facts.real)}. The pace of the machine changed between them"
            f"{_beside_others(facts)}. Measure again when it is at peace."
        ),
        evidence=(row("the parts together", parts_s, f"R {ms(facts.real)}", "R, D, H, C"),),
    )


def _beside_others(facts: Facts) -> str:
    """Words for other processes, where they kept enough of the cores busy to be felt."""
    foreign, owned = facts.foreign_cores, facts.host.cores_owned
    if foreign < _FOREIGN_SHARE * owned:
        return ""
    return f", as {held_by_others(foreign, owned)}"


def _undecided(facts: Facts, loss: Spread) -> Judgement:
    """The interval is too wide: n grows with the square of the width that is too much."""
    widths: dict[str, tuple[float, int]] = {
        "R": (facts.real.half_width_share, facts.profile.legs["R"].steps),
        "D": (facts.device.half_width_share, facts.profile.legs["D"].steps),
    }
    worst = max(widths, key=lambda leg: widths[leg][0])
    width, steps = widths[worst]
    more = (
        math.ceil(steps * ((width / WANTED_HALF_WIDTH) ** 2 - 1))
        if math.isfinite(width)
        else 10 * steps
    )
    return Judgement(
        code=VerdictCode.INCONCLUSIVE,
        sentence=(
            f"Between {percent(max(0.0, loss.low))} and {percent(loss.high)} of the step is lost: "
            f"too wide to tell{_beside_others(facts)}. About {max(1, more)} more steps of leg "
            f"{worst} would."
        ),
        evidence=(
            Evidence(
                claim="share of the step that is lost",
                measured=loss,
                unit="share",
                compared_with=f"innocent up to {percent(INNOCENT_SHARE)}",
                leg="R-D",
            ),
        ),
    )
