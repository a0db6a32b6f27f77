"""What epochs took: their boundaries, and the step with boundaries included."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from stoker.probe.leg_reading import Steps
from stoker.probe.trainer_lines import Trainer
from stoker.records.profile import EpochFacts, Leg
from stoker.stats import Spread, bootstrap

# A step that waits for this share of its time has a loader that sets the pace.
_STARVED = 0.2


def read_epochs(trainer: Trainer, steps: Steps, *, wait_s: float, period_s: float) -> EpochFacts:
    """Boundaries, as seen or, where none was seen, from the start of the first epoch.

    Workers that live on are started in the first epoch alone: it tells nothing of the later ones.
    """
    boundaries = trainer.of("boundary")
    closing = trainer.last("end") or {}
    starts = closing.get("start_s") or []
    # The first round of a new epoch arrives at once. What a boundary costs is what it takes beyond
    # such a round inside an epoch: its waits, or where the loader sets the pace, its periods.
    is_starved = wait_s > _STARVED * period_s
    usual = (period_s if is_starved else wait_s) * max(1, steps.workers)
    edges = [max(0.0, b["seconds"] - b["validation_s"] - usual) for b in boundaries]
    start_s = statistics.fmean(starts) if starts else 0.0
    is_guess = not edges and bool(starts) and not steps.facts["persistent_workers"]
    if is_guess:
        edges = [max(0.0, starts[-1] - usual)]
    return EpochFacts(
        batches=steps.facts["batches"],
        boundaries=len(boundaries),
        edge_s=bootstrap(edges) if edges else None,
        start_s=start_s,
        validation_s=statistics.fmean(b["validation_s"] for b in boundaries) if boundaries else 0.0,
        mid_validation_s=_in_mid_epoch(closing.get("mid_validation") or []),
        extrapolated=is_guess,
    )


def _in_mid_epoch(seen: Sequence[tuple[int, float]]) -> float:
    """Seconds a batch, of validations that each came after so many batches.

    How often a script validates is known from one of them to the next: a single one tells nothing.
    """
    if len(seen) < 2 or seen[-1][0] <= seen[0][0]:
        return 0.0
    return sum(seconds for _, seconds in seen[1:]) / (seen[-1][0] - seen[0][0])


def epoch_means(trainer: Trainer) -> list[float]:
    """Seconds a batch of each whole epoch that nothing disturbed, validation left out."""
    return [
        (b["epoch_s"] - b["validation_s"] - b["mid_validation_s"]) / b["batches"]
        for b in trainer.of("boundary")
        if b["epoch_s"] is not None and b["batches"]
    ]


def whole_epochs(trainer: Trainer, steps: Steps) -> Spread | None:
    """Mean step over whole epochs that nothing disturbed; None when fewer than two were seen."""
    whole = epoch_means(trainer)
    return bootstrap(whole).scaled(steps.per_step) if len(whole) >= 2 else None


def real_step(leg: Leg, epochs: EpochFacts, whole: Spread | None, per_step: int) -> Spread:
    """The mean step, epoch boundaries included."""
    if whole is not None and not leg.discarded:
        return whole
    if epochs.edge_s is None or not epochs.batches:
        return leg.period
    share = epochs.edge_s.median / epochs.batches * per_step
    # A single boundary has no interval of its own: its whole share is taken as uncertain.
    edge = epochs.edge_s
    low, high = (edge.low, edge.high) if edge.count > 1 else (0.0, 2 * edge.median)
    scale = per_step / epochs.batches
    period = leg.period
    return Spread(
        period.median + share,
        period.median - math.hypot(period.median - period.low, share - low * scale) + share,
        period.median + math.hypot(period.high - period.median, high * scale - share) + share,
        period.count,
    )
