"""Ranks that hold up the others: who waits for batches, and what it would be worth to mend that.

Ranks that meet in every step all take as long as the slowest; only the slowest waits inside
`next()`, the others wait for it where they meet.
"""

from __future__ import annotations

from stoker.diagnose.facts import Facts
from stoker.diagnose.judgement import Judgement, row
from stoker.diagnose.wording import ms
from stoker.records.diagnosis import VerdictCode
from stoker.records.profile import RankFacts

# A peer that waits for its batches for this much more of the step than this rank holds it up; ranks
# that load alike differ by less than a tenth.
_PEER_WAITS = 0.20


def find_peer(facts: Facts) -> Judgement | None:
    """Another rank's loader sets the pace, not this one's: the verdict, or None."""
    ranks = facts.profile.ranks
    if len(ranks) < 2:
        return None
    own_wait = _wait(ranks[0])
    slow = [r for r in ranks[1:] if _wait(r) - own_wait >= _PEER_WAITS * r.real_s]
    if not slow:
        return None
    slowest = max(slow, key=_wait)
    if own_wait > _wait(slowest) - own_wait:
        return None  # most of what it costs, this rank's own loader costs too
    others = [rank for rank in ranks if rank not in slow]
    step = _step(others, facts)
    saved = 1 - step / facts.real.median
    return Judgement(
        code=VerdictCode.PEER_RANK,
        sentence=(
            f"{_names(slow, slowest)} {ms(_wait(slowest))} of each step of "
            f"{ms(slowest.real_s)} for its batches, this rank {ms(own_wait)}: all wait for it "
            f"where they meet. If {_subject(slow)} like the median: {-saved:+.0%}."
        ),
        evidence=(
            row(
                f"wait of rank {slowest.rank} for its batches",
                _wait(slowest),
                f"this rank {ms(own_wait)}",
                "R",
            ),
            row("the step if the others set the pace", step, f"R {ms(facts.real)}", "D, L"),
        ),
    )


def _wait(rank: RankFacts) -> float:
    return rank.wait_s or 0.0


def _step(ranks: list[RankFacts], facts: Facts) -> float:
    """Seconds of a step in which these ranks' loaders set the pace.

    Their waits beside a slower rank say nothing of that: their queues fill while all wait for it.
    What counts is what each loader needs beyond the step that all take together on kept batches.
    """
    # They take it together; a rank whose legs were out of step has waits for others in its own.
    device = min([facts.device.median, *(r.device_s for r in ranks if r.device_s is not None)])
    needs = []
    for rank in ranks:
        if rank.loader_s is None:
            needs.append(_wait(rank))
        else:
            needs.append(max(0.0, rank.loader_s - device) if facts.workers else rank.loader_s)
    return min(facts.real.median, device + max(needs))


def _names(slow: list[RankFacts], slowest: RankFacts) -> str:
    if len(slow) == 1:
        return f"Rank {slowest.rank} waits"
    numbers = ", ".join(str(rank.rank) for rank in slow)
    return f"Ranks {numbers} wait for their batches; rank {slowest.rank}, the slowest, waits"


def _subject(slow: list[RankFacts]) -> str:
    return f"rank {slow[0].rank} were" if len(slow) == 1 else "they were"
