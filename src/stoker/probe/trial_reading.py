"""Paired trials from their windows: each variant with the windows of the loop beside it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from operator import add

from stoker.probe.leg_reading import Steps, in_rounds, whole_rounds
from stoker.probe.trainer_lines import Line, Trainer
from stoker.records.profile import CandidateTrial, Trial
from stoker.stats import Spread, bootstrap, difference, ratio

_NOT_REACHED = "measuring ended before"


def read_trials(steps: Steps) -> tuple[Trial, ...]:
    """Other numbers of workers, tried without further changes: the fastest first."""
    found = []
    for name, (variant, own) in _pairs(steps).items():
        is_count = not name or ("," not in name and name.startswith(("workers=", "overlap=")))
        if not is_count:
            continue
        before, after = _steps_of(own, variant, steps)
        if before is None or after is None:
            continue
        workers = int(variant[0]["workers"])
        speedup = ratio(before, after)
        found.append(
            Trial(what="workers", value=workers, baseline=before, variant=after, speedup=speedup)
        )
    return tuple(sorted(found, key=lambda trial: -trial.speedup.median))


def read_candidates(trainer: Trainer, steps: Steps) -> tuple[CandidateTrial, ...]:
    """What was offered for a trial, measured or not, in its order."""
    pairs = _pairs(steps)
    why = {line["name"]: line["why"] for line in trainer.of("untried")}
    bytes_of = {line["name"]: line["unique_bytes"] for line in trainer.of("tried")}
    own_bytes = _own_bytes(trainer, steps)
    found: dict[str, CandidateTrial] = {}
    for line in trainer.of("candidate"):
        name = line["name"]
        variant, own = pairs.get(name, ([], []))
        baseline, step = _steps_of(own, variant, steps)
        problem = line["refused"] or why.get(name, "")
        is_told = not problem and step is not None and baseline is not None
        found[name] = CandidateTrial(
            name=name,
            workers=line["workers"],
            depth=line["depth"],
            baseline=baseline if is_told else None,
            step=step if is_told else None,
            speedup=ratio(baseline, step) if is_told and baseline and step else None,
            steps=sum(len(window["wait"]) for window in variant) // steps.per_step,
            epochs_seen=any(window.get("edges") for window in variant),
            more_bytes=(
                bytes_of[name] - own_bytes if name in bytes_of and own_bytes is not None else None
            ),
            kept_bytes=line["kept_bytes"],
            data=line["data"],
            unfit=line["unfit"],
            skipped="" if is_told else problem or _NOT_REACHED,
        )
    return tuple(found.values())


def _own_bytes(trainer: Trainer, steps: Steps) -> int | None:
    """Memory that only the script's own workers hold, as last seen; None where none was seen."""
    if not steps.workers:
        return 0
    seen = [line["unique_bytes"] for line in trainer.of("memory") if line["workers"]]
    return int(seen[-1]) if seen else None


def _pairs(steps: Steps) -> dict[str, tuple[list[Line], list[Line]]]:
    """For each variant its windows, and those of the loop as it is that stand beside them."""
    trials = [window for window in steps.windows if window["leg"] in ("B", "V")]
    found: dict[str, tuple[list[Line], list[Line]]] = {}
    for place, window in enumerate(trials):
        if window["leg"] != "V":
            continue
        variant, own = found.setdefault(window.get("variant", ""), ([], []))
        variant.append(window)
        beside = trials[max(0, place - 1) : place + 2]
        own += [one for one in beside if one["leg"] == "B" and one not in own]
    return found


def _steps_of(
    own: Sequence[Line], variant: Sequence[Line], steps: Steps
) -> tuple[Spread | None, Spread | None]:
    """A step of both sides; with the beginnings of epochs where both have seen some."""
    is_whole = all(any(window.get("edges") for window in side) for side in (own, variant))
    return _step(own, steps, is_whole=is_whole), _step(variant, steps, is_whole=is_whole)


def _step(windows: Sequence[Line], steps: Steps, *, is_whole: bool) -> Spread | None:
    """Seconds of a step, with its share of the beginning of an epoch if that is asked for."""
    block = math.lcm(max((int(w["workers"]) for w in windows), default=1) or 1, steps.per_step)
    periods: list[float] = []
    waits: list[float] = []
    edges: list[float] = []
    for window in windows:
        periods += whole_rounds(list(map(add, window["wait"], window["compute"])), block)
        waits += window["wait"]
        edges += window.get("edges", [])
    if not periods:
        return None
    inside = in_rounds(periods, block).scaled(steps.per_step)
    epoch = steps.facts["batches"]
    if not is_whole or not epoch:
        return inside
    usual = statistics.fmean(waits)
    share = bootstrap([max(0.0, edge - usual) for edge in edges]).scaled(steps.per_step / epoch)
    if share.count < 2:  # a single one is all uncertain
        share = Spread(share.median, 0.0, 2 * share.median, 1)
    return difference(inside, share.scaled(-1.0))
