"""What each rank measured of itself. Runs in the parent; concludes nothing."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from stoker.probe.leg_reading import Steps
from stoker.probe.trainer_lines import Line, Trainer
from stoker.records.profile import RankFacts


def read_ranks(trainers: Iterable[Trainer]) -> tuple[RankFacts, ...]:
    """Every rank that came to its steady steps; of two processes of a rank the first.

    Empty for a process that trains alone, and for processes that train side by side without
    knowing of each other.
    """
    of_rank: dict[int, Trainer] = {}
    for trainer in trainers:
        if int(trainer.of("training-loader")[-1]["world"]) > 1:
            of_rank.setdefault(trainer.rank, trainer)
    return tuple(facts for trainer in of_rank.values() if (facts := _rank(trainer)) is not None)


def _rank(trainer: Trainer) -> RankFacts | None:
    steps = Steps(trainer)
    real, device = steps.periods("R"), steps.periods("D")
    loader = [period for line in _drains(trainer) for period in line["periods"]]
    if not real:
        return None
    return RankFacts(
        rank=trainer.rank,
        real_s=statistics.fmean(real) * steps.per_step,
        device_s=statistics.fmean(device) * steps.per_step if device else None,
        loader_s=statistics.fmean(loader) * steps.per_step if loader else None,
        wait_s=statistics.fmean(steps.of("R", lambda w: w["wait"])) * steps.per_step,
    )


def loader_cores(trainer: Trainer) -> float:
    """Cores that a rank keeps busy while its loader is drained."""
    drains = _drains(trainer)
    used = sum(line["main_cpu_s"] + (line["cpu_s"] if line["workers"] else 0.0) for line in drains)
    taken = sum(sum(line["periods"]) for line in drains)
    return used / taken if taken else 0.0


def _drains(trainer: Trainer) -> list[Line]:
    """Leg L: the loader alone, with the script's own count of workers."""
    workers = trainer.of("training-loader")[-1]["workers"]
    return [d for d in trainer.of("drain") if d["what"] == "L" and d["workers"] == workers]
