"""Workers that cost more than they give: hand-off, each other's way, work item by item."""

from __future__ import annotations

import math

from stoker.diagnose.deficit_rows import deficit_rows, scaling_row
from stoker.diagnose.facts import Facts
from stoker.diagnose.judgement import Judgement, row
from stoker.diagnose.wording import ms, with_workers
from stoker.records.diagnosis import Evidence, VerdictCode
from stoker.records.profile import BESIDE, OWN_LOADER, Leg

# Hand-over alone at this share of the loader's period: the work is not what it waits for.
_HAND_OVER = 0.60
# Fewer workers, or none, make a batch in this share of the time or less: they hinder each other.
_FEWER_HELP = 0.85
# An item this quick and this small is made of calls, not of data: 4 KB are copied in 1 µs.
_ITEM_S = 500e-6
_ITEM_BYTES = 4096
# A wait is a matter of computing when the CPU is in use for most of it, not of storage or a pause.
_COMPUTING = 0.5


def handoff(facts: Facts) -> Judgement | None:
    """Handing a batch over costs as much as the whole loader."""
    null, alone = facts.null, facts.alone
    if null is None or alone is None or facts.produce is None:
        return None
    if null.period.median < _HAND_OVER * alone.period.median:
        return None
    rows = [*deficit_rows(facts), _null_row(facts, null)]
    fewer = facts.fastest_with_fewer
    if fewer is not None:
        rows.append(scaling_row(facts, fewer))
    return Judgement(
        code=VerdictCode.HANDOFF_BOUND,
        sentence=(
            f"A batch takes {ms(alone.period)} from {facts.workers} workers, and handing over an "
            f"empty one {ms(null.period)}: the time goes into handing batches over, not into "
            "making them."
        ),
        evidence=tuple(rows),
    )


def slower_than_none(facts: Facts) -> Judgement | None:
    """The loading process itself makes batches faster, without any worker."""
    return _slower_than(facts, facts.at_workers(0))


def slower_than_fewer(facts: Facts) -> Judgement | None:
    """Fewer workers make batches faster, and no core or mask says why."""
    return _slower_than(facts, facts.fastest_with_fewer)


def hinder_each_other(facts: Facts, fewer: Leg) -> bool:
    """Whether so few workers make batches faster, and it isn't the store that makes it so."""
    return (
        facts.alone is not None
        and fewer.workers < facts.workers
        and fewer.period.median <= _FEWER_HELP * facts.alone.period.median
        # more readers than a disk's head can serve are slower too: that is the store's
        and not facts.is_waiting
    )


def _slower_than(facts: Facts, fewer: Leg | None) -> Judgement | None:
    if fewer is None or facts.alone is None or not hinder_each_other(facts, fewer):
        return None
    null, alone = facts.null, facts.alone
    rows = [*deficit_rows(facts), scaling_row(facts, fewer)]
    if null is not None:
        rows.append(_null_row(facts, null))
    compared = (
        f"A batch takes {ms(alone.period)} from {facts.workers} workers, but "
        f"{ms(fewer.period)} {with_workers(fewer.workers)}"
    )
    added_s = alone.period.median - fewer.period.median
    if not fewer.workers and null is not None and null.period.median >= added_s / 2:
        return Judgement(
            code=VerdictCode.HANDOFF_BOUND,
            sentence=(
                f"{compared}: handing over an empty one takes {ms(null.period)}, which is most of "
                "what the workers add."
            ),
            evidence=tuple(rows),
        )
    stage = _most_grown(facts, fewer)
    if stage is not None:
        rows.append(stage)
    where = f", most of all in {stage.claim}" if stage is not None else ""
    return Judgement(
        code=VerdictCode.HANDOFF_BOUND,
        kind="interference",
        sentence=f"{compared}: the workers stand in each other's way{where}.",
        evidence=tuple(rows),
    )


def _most_grown(facts: Facts, fewer: Leg) -> Evidence | None:
    """The stage in which most of the time lies that a sample takes more than with fewer workers."""
    scaling = facts.profile.stage_scaling
    if scaling is None or scaling.workers != fewer.workers:
        return None
    before = {stage.stage: stage.wall_s for stage in scaling.stages if stage.where != BESIDE}
    grown = {
        stage.stage: (stage.wall_s - before[stage.stage], stage.wall_s)
        for stage in facts.profile.stages
        if stage.where != BESIDE and stage.wall_s > before.get(stage.stage, math.inf)
    }
    name, (more, now) = max(grown.items(), key=lambda item: item[1][0], default=("", (0.0, 0.0)))
    if more <= sum(added for added, _ in grown.values()) / 2:
        return None
    return row(name, now, f"{ms(before[name])} {with_workers(fewer.workers)}", "S")


def _null_row(facts: Facts, null: Leg) -> Evidence:
    assert facts.alone is not None
    against = f"L {ms(facts.alone.period)}"
    return row("handing over a batch without work in it", null.period, against, "N")


def per_item(facts: Facts) -> Judgement | None:
    """Each item costs microseconds of Python, whatever its size."""
    size, cpu = facts.sample_bytes, facts.load_cpu_s
    is_ours = facts.loader.dataset == OWN_LOADER  # it takes samples by the hundred
    if size is None or cpu is None or facts.loader.random_op is not None or is_ours:
        return None
    each = cpu / facts.batch_size
    if each > _ITEM_S or size > _ITEM_BYTES or not _is_computing(facts, cpu):
        return None
    if facts.workers:
        rows = deficit_rows(facts)
        instead = "more workers would only share it out"
    else:
        rows = [row("waiting inside next()", facts.waits, f"R {ms(facts.real)}", "R")]
        instead = "workers would add the hand-off to it"
    return Judgement(
        code=VerdictCode.PER_ITEM_OVERHEAD,
        sentence=(
            f"Each of the {facts.batch_size} items of a batch costs {each * 1e6:.0f} µs of Python "
            f"for {size:.0f} bytes: the cost is per item, not per byte, and {instead}."
        ),
        evidence=(row("CPU time of an item", each, f"{size:.0f} bytes each", "L"), *rows),
    )


def _is_computing(facts: Facts, cpu_s: float) -> bool:
    """Whether whoever loads is on a core for most of the time that it takes."""
    if not facts.workers:
        return cpu_s >= _COMPUTING * facts.waits.median
    at_once = min(facts.workers, facts.cores_usable)
    return facts.produce is not None and (facts.cores_busy or 0.0) >= _COMPUTING * at_once
