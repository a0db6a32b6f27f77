"""From windows and drains to legs: per-batch seconds put together to steps, with intervals."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from operator import add
from typing import Any

from stoker.probe.kept import half_of
from stoker.probe.stand_ins import HALF
from stoker.probe.trainer_lines import Line, Trainer
from stoker.records.profile import Leg, LegCode, StepBySize
from stoker.stats import Spread, bootstrap

_DRIFT_STEPS = 4  # a window of fewer says nothing of a drift
# CPU time is counted for each batch, whenever it arrives: over a dozen batches of the same work it
# differs by less than this, even where their arrivals differ by much.
_COUNTED_SHARE = 0.05
# Enough blocks for the 2.5 % ends of a bootstrap, as few as keep slipping batches together.
_BLOCKS = 12
# Fewer steps of a size have no interval to draw a line by.
_SIZE_STEPS = 6


class Steps:
    """Per-batch measurements put together to steps of `per_step` batches."""

    def __init__(self, trainer: Trainer) -> None:
        self.facts = trainer.of("training-loader")[-1]
        self.workers = int(self.facts["workers"])
        self.windows = trainer.of("window")
        self.is_warm = any(window["leg"] == "R" and window["wait"] for window in self.windows)
        if not self.is_warm:  # it ended early: the first steps are all there is
            self.windows = [w | {"leg": "R"} if w["leg"] == "W" else w for w in self.windows]
        counts = [count for window in self.windows for count in window["per_step"]]
        self.per_step = max(1, round(statistics.median(counts))) if counts else 1
        # Batches arrive in rounds of W, and steps are made of `per_step` batches.
        self.block = math.lcm(max(1, self.workers), self.per_step)
        # Kept batches of unequal sizes come in rounds of their own, which take about the same.
        kept = max((window["round"] for window in self.windows), default=1)
        self.kept_block = math.lcm(self.per_step, kept) if kept > 1 else self.block
        self.is_background = any(window["background"] for window in self.windows)

    def of(self, leg: str, pick: Callable[[Line], Sequence[float]]) -> list[float]:
        """Values of all windows of a leg, one after the other, each of whole rounds."""
        found = [pick(window) for window in self.windows if window["leg"] == leg]
        return [value for values in found for value in whole_rounds(values, self._block_of(leg))]

    def _block_of(self, leg: str) -> int:
        return self.block if leg in "RWBV" else self.kept_block

    def periods(self, leg: str) -> list[float]:
        """Seconds per batch. Kept batches cost the loop nothing, but for a background consumer."""
        if leg in "RWBV" or self.is_background:
            return self.of(leg, lambda w: list(map(add, w["wait"], w["compute"])))
        return self.of(leg, lambda w: w["compute"])

    def spread(self, values: Sequence[float], leg: str = LegCode.REAL) -> Spread:
        """Mean seconds of a step of a leg."""
        return in_rounds(values, self._block_of(leg)).scaled(self.per_step)

    def leg(self, code: LegCode, values: Sequence[float], **extra: Any) -> Leg | None:
        """One leg from its per-batch values."""
        if not values:
            return None
        windows = sum(1 for window in self.windows if window["leg"] == code)
        cores = [w["main_cores"] for w in self.windows if w["leg"] == code and w["main_cores"]]
        period = self.spread(values, code)
        middles = [
            statistics.median(map(add, w["wait"], w["compute"]))
            for w in self.windows
            if w["leg"] == code and len(w["compute"]) >= _DRIFT_STEPS
        ]
        return Leg(
            code=code,
            period=period,
            middle=statistics.median(values) * self.per_step,
            steps=len(values) // self.per_step,
            windows=windows,
            workers=self.workers,
            drift=middles[-1] / middles[0] if len(middles) >= 2 and middles[0] > 0 else None,
            main_cpu_s=period.scaled(statistics.fmean(cores)) if cores else None,
            **extra,
        )


def read_sizes(steps: Steps, samples: int) -> StepBySize | None:
    """Leg F of batches of so many samples; None where one of the sizes was hardly seen."""
    found = [
        [
            seconds
            for window in steps.windows
            if window["leg"] == "F" and (window["variant"] == HALF) == is_half
            for seconds in window["compute"]
        ]
        for is_half in (False, True)
    ]
    if min(map(len, found)) < _SIZE_STEPS * steps.per_step:
        return None
    whole, half = (in_rounds(values, steps.per_step).scaled(steps.per_step) for values in found)
    return StepBySize(
        samples=samples * steps.per_step,
        half_samples=half_of(samples) * steps.per_step,
        whole=whole,
        half=half,
    )


def whole_rounds(values: Sequence[float], round_: int) -> Sequence[float]:
    """Without the batches of an unfinished round at the end, where there are rounds enough.

    Batches of one round arrive together: an odd one out shifts all rounds behind it.
    """
    return values[: len(values) - len(values) % round_] if len(values) >= 2 * round_ else values


def in_rounds(values: Sequence[float], round_: int) -> Spread:
    """The mean with its interval, resampled in blocks of whole rounds.

    A batch that slips from one round to the next makes one short and the other long; blocks of as
    many rounds as leave a dozen blocks keep such pairs together.
    """
    return bootstrap(values, block=round_ * max(1, len(values) // (round_ * _BLOCKS)))


def drains(trainer: Trainer, steps: Steps, what: str) -> list[Leg]:
    """The drained legs, one for each worker count, from all their windows together."""
    by_count: dict[int, list[Line]] = {}
    for line in trainer.of("drain"):
        if line["what"] == what and line["periods"]:
            by_count.setdefault(int(line["workers"]), []).append(line)
    legs = []
    for workers, lines in by_count.items():
        values = [
            value for line in lines for value in whole_rounds(line["periods"], max(1, workers))
        ]
        batches = sum(len(line["periods"]) for line in lines)
        period = in_rounds(values, max(1, workers)).scaled(steps.per_step)

        def per_step(
            key: str, lines: list[Line] = lines, period: Spread = period, n: int = batches
        ) -> Spread | None:
            """Seconds a step; counted by the kernel, not timed from arrival to arrival."""
            found = [line[key] for line in lines if line[key] is not None]
            if not found:
                return None
            value = sum(found) / n * steps.per_step
            share = min(_COUNTED_SHARE, period.half_width_share)
            return Spread(value, value * (1 - share), value * (1 + share), n)

        legs.append(
            Leg(
                code=LegCode(what),
                period=period,
                middle=statistics.median(values) * steps.per_step,
                steps=len(values) // steps.per_step,
                windows=len(lines),
                workers=workers,
                cpu_s=per_step("cpu_s"),
                runqueue_s=per_step("runqueue_s"),
                main_cpu_s=per_step("main_cpu_s"),
                discarded=sum(line["skipped"] for line in lines),
                start_s=max(line["ramp_s"] for line in lines),
            )
        )
    return legs
