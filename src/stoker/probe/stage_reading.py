"""From the lines of leg S to StageTime records. Runs in the parent."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from stoker.probe.stage_lines import Line, samples_of
from stoker.probe.stages import split_waiting
from stoker.records.profile import BESIDE, CostTrend, SampleCost, StageScaling, StageTime

_SLOWEST = 10
# A trend is told from this many samples on, over this many values, where the line explains this
# share of the variance: below it files or indices that cost more are a matter of chance.
_TREND_SAMPLES = 24
_TREND_VALUES = 8
_EXPLAINED = 0.3


# Calls, wall, CPU, run-queue wait and blocked ns of a stage.
_Sums = tuple[float, float, float, float, float]


def read_stages(
    lines: Iterable[Line], repeats: Mapping[str, bool] | None = None
) -> tuple[StageTime, ...]:
    """Each stage's mean times per sample, the longest first; nothing when no batch was timed.

    `repeats`: stages of which it is known whether they give the same under any seed. What other
    threads of a worker did beside the making of samples comes last.
    """
    batches = [line for line in lines if "samples" in line]
    samples = sum(line["samples"] for line in batches)
    if not samples:
        return ()
    inside = _summed(_of_fetches(line) for line in batches)
    beside = _summed(_of_other_threads(line) for line in batches)
    where = batches[-1]["where"]
    return tuple(
        StageTime(
            stage=name,
            where=place,
            wall_s=wall / samples / 1e9,
            cpu_s=cpu / samples / 1e9,
            runqueue_s=queued / samples / 1e9,
            blocked_s=blocked / samples / 1e9,
            calls=calls / samples,
            deterministic=(repeats or {}).get(name),
        )
        for place, totals in ((where, inside), (BESIDE, beside))
        for name, (calls, wall, cpu, queued, blocked) in sorted(
            totals.items(), key=lambda item: -item[1][1]
        )
    )


def read_scaling(lines: Iterable[Line], workers: int) -> StageScaling | None:
    """The stages as loaders of another number of workers had them; None where none was timed."""
    others = [line for line in lines if line["workers"] != workers]
    found = read_stages(others)
    return StageScaling(workers=others[-1]["workers"], stages=found) if found else None


def _of_fetches(line: Line) -> Iterator[tuple[str, _Sums]]:
    waiting = split_waiting(line["stages"], line["runqueue_ns"] or 0)
    for name, (calls, wall, cpu) in line["stages"].items():
        yield name, (calls, wall, cpu, *waiting[name])


def _of_other_threads(line: Line) -> Iterator[tuple[str, _Sums]]:
    """How much of their waiting was for a core is not known: all of it counts as blocked."""
    for name, (calls, wall, cpu) in line.get("aside", {}).items():
        yield name, (calls, wall, cpu, 0.0, max(0.0, wall - cpu))


def _summed(batches: Iterable[Iterable[tuple[str, _Sums]]]) -> dict[str, list[float]]:
    totals: dict[str, list[float]] = {}
    for stage, sums in itertools.chain.from_iterable(batches):
        total = totals.setdefault(stage, [0.0] * len(sums))
        total[:] = map(operator.add, total, sums)
    return totals


def read_amplification(lines: Sequence[Line], sample_bytes: float) -> float | None:
    """Bytes that read calls gave for a sample, over its own bytes.

    Only where one file stood behind several samples; a picture that is larger than the tensor made
    of it is another thing. No more of a sample counts than that file holds, for the rest is of
    other files. None where nothing is shared, or the kernel counts no reads.
    """
    indices: dict[str, set[object]] = {}
    samples = [s for s in samples_of(lines) if s["path"] and s["size"]]
    for sample in samples:
        indices.setdefault(sample["path"], set()).add(sample["index"])
    shared = [s["size"] for s in samples if len(indices[s["path"]]) > 1]
    read = _read_a_sample(lines)
    if not shared or read is None or sample_bytes <= 0:
        return None
    return float(min(read, sum(shared) / len(shared)) / sample_bytes)


def _read_a_sample(lines: Sequence[Line]) -> float | None:
    """Bytes that read calls gave for one sample, the mean over batches.

    A worker's first batch imports modules and reads what is kept for all others.
    """
    counted = [line for line in lines if line.get("read_bytes") is not None]
    later = [line for line in counted if line["gap_ns"] is not None] or counted
    if not later:
        return None
    return float(sum(line["read_bytes"] for line in later) / sum(line["samples"] for line in later))


def slowest_samples(lines: Iterable[Line]) -> tuple[SampleCost, ...]:
    """The samples that cost the most, the dearest first."""
    ranked = sorted(samples_of(lines), key=lambda sample: -sample["wall_s"])
    return tuple(msgspec.convert(sample, SampleCost) for sample in ranked[:_SLOWEST])


def cost_trend(lines: Iterable[Line]) -> CostTrend | None:
    """Cost against file size and index; None for too few samples to see a trend in."""
    samples = samples_of(lines)
    if len(samples) < _TREND_SAMPLES:
        return None
    seconds = np.array([sample["wall_s"] for sample in samples])
    middle = float(np.median(seconds))
    sized = [sample for sample in samples if sample["size"]]
    per_file, per_byte = _line([s["size"] for s in sized], [s["wall_s"] for s in sized])
    plain = [sample for sample in samples if isinstance(sample["index"], int)]
    indices = [sample["index"] for sample in plain]
    _, slope = _line(indices, [sample["wall_s"] for sample in plain])
    reach = max(indices) - min(indices) if indices else 0
    return CostTrend(
        samples=len(samples),
        median_s=middle,
        spread=float(np.quantile(seconds, 0.9)) / middle if middle > 0 else 1.0,
        per_file_s=per_file,
        per_byte_s=per_byte,
        index_share=slope * reach / middle if slope is not None and middle > 0 else None,
    )


def _line(xs: Sequence[float], ys: Sequence[float]) -> tuple[float | None, float | None]:
    """Intercept and slope of a straight line, or nothing where it explains too little."""
    if len(xs) < _TREND_SAMPLES or len(set(xs)) < _TREND_VALUES:
        return None, None
    slope, intercept = np.polyfit(np.asarray(xs, float), np.asarray(ys, float), 1)
    explained = float(np.corrcoef(xs, ys)[0, 1]) ** 2 if np.std(ys) > 0 else 0.0
    return (float(intercept), float(slope)) if explained >= _EXPLAINED else (None, None)
