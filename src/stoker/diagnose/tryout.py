"""Trials to a choice: the cheapest configuration that is statistically tied with the best."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.diagnose.wording import told
from stoker.records.diagnosis import Tried, Tryout
from stoker.records.profile import CandidateTrial, Profile
from stoker.remedy.settings import REORDERED, SAME
from stoker.report.numbers import withheld
from stoker.stats import Spread, ratio

# Below this a gain is within what two stretches of one run differ by.
_WORTH = 0.02
# What is surely faster by so much is a choice, though its interval is too wide to promise a gain.
_FAR = 1.2
# What is tied by its interval must be about as fast in the middle, too.
_ABOUT = 0.1
# Memory that differs by less is the same cost: workers of one run differ by so much among them.
_SAME_BYTES = 100e6


def tryout(profile: Profile) -> Tryout | None:
    """What the trials of a run say; None where none were asked for."""
    if not profile.candidates:
        return None
    tried = [one for one in profile.candidates if one.speedup is not None]
    best = _best([one for one in tried if not one.unfit])
    pick = _pick(profile, tried, best)
    unsure = tuple(one.name for one in tried if _is_unsure(one, best))
    rows = tuple(
        Tried(
            name=one.name,
            step_s=one.step,
            speedup=one.speedup,
            is_tied=one.speedup is not None and _is_tied(one.speedup, best),
            memory_bytes=_memory(profile, one) if one.speedup is not None else None,
            costs=_costs(one),
            skipped=one.skipped,
        )
        for one in profile.candidates
    )
    return Tryout(
        baseline_s=tried[0].baseline if tried else None,
        rows=rows,
        pick=pick.name if pick is not None else "",
        sentence=_sentence(tried, best, pick, unsure),
        unsure=unsure,
    )


def _best(tried: Sequence[CandidateTrial]) -> Spread:
    """The best gain of those that are known well enough to choose; 1 where none is faster.

    Well enough is an interval that is narrow enough to promise it, or one that lies far above all
    that are: what is at least four times as fast is the best, however many times it may be.
    """
    gains = [one.speedup for one in tried if one.speedup is not None]
    narrow = [Spread.exact(1.0), *(gain for gain in gains if gain.is_promise)]
    best = max(narrow, key=lambda gain: gain.median)
    sure = [gain for gain in gains if gain.low > best.median * _FAR]
    return max(sure, key=lambda gain: gain.low, default=best)


def _is_tied(gain: Spread, best: Spread) -> bool:
    return gain is best or not ratio(best, gain).low > 1 + _WORTH


def _pick(profile: Profile, tried: Sequence[CandidateTrial], best: Spread) -> CandidateTrial | None:
    """None: the loop as it is, which costs nothing, is tied with the best."""
    if not best.low > 1 + _WORTH:
        return None
    choice = [
        one
        for one in tried
        if one.speedup is not None
        and not one.unfit
        and _is_tied(one.speedup, best)
        and (one.speedup.is_promise or one.speedup is best)
        and one.speedup.low > 1
        and one.speedup.median >= best.median * (1 - _ABOUT)
    ]

    def cost(one: CandidateTrial) -> tuple[bool, bool, int, int, int]:
        more = _memory(profile, one)
        about = round((more or 0) / _SAME_BYTES)
        # What is not known may be much.
        return one.data == REORDERED, more is None, about, one.name.count(","), one.workers

    return min(choice, key=cost, default=None)


def _is_unsure(one: CandidateTrial, best: Spread) -> bool:
    """It may be faster than the best, and was not seen long enough to say so."""
    gain = one.speedup
    is_known = gain is None or gain is best or gain.is_promise or bool(one.unfit)
    return not is_known and gain is not None and gain.median > best.median * (1 + _WORTH)


def _memory(profile: Profile, one: CandidateTrial) -> int | None:
    """Bytes more than the loop as it is: of the workers, of ready batches, of what is kept."""
    loader = profile.loader
    if loader is None or one.more_bytes is None:
        return None
    depth = loader.workers * (loader.prefetch_factor or 2)
    ready = (one.depth - depth) * loader.batch_bytes
    return one.more_bytes + ready + one.kept_bytes


def _costs(one: CandidateTrial) -> str:
    """What it costs beside memory."""
    words = [one.data] if one.data == REORDERED else []
    if one.unfit:
        words.append(f"not to be had as it is: {one.unfit}")
    return "; ".join(words)


def _sentence(
    tried: Sequence[CandidateTrial],
    best: Spread,
    pick: CandidateTrial | None,
    unsure: Sequence[str],
) -> str:
    if not tried:
        return "Nothing could be tried: the reasons stand beside the names."
    many = f"{len(tried)} configuration{'s' * (len(tried) > 1)}"
    if pick is None and unsure:
        return (
            f"Too few steps to tell whether {', '.join(unsure)} would help: the intervals are too "
            f"wide to choose by; --budget gives trials more time, too."
        )
    if pick is None or pick.speedup is None:
        is_told = best.median > 1 and best.is_promise
        most = f", the best of them {best.median:.2f}x" if is_told else ""
        return f"Nothing better than the loop as it is: {many} tried in turn with it{most}."
    gave = f"is {unknown}" if (unknown := withheld(pick.speedup)) else f"gave {told(pick.speedup)}"
    fit = [one.speedup for one in tried if one.speedup is not None and not one.unfit]
    tied = sum(_is_tied(gain, best) for gain in fit)
    beside = f"the cheapest of {tied} that are tied" if tied > 1 else "the best"
    data = f" The data: {pick.data}." if pick.data not in ("", SAME) else ""
    return f"{pick.name} {gave}: {beside} among {many} tried.{data}"
