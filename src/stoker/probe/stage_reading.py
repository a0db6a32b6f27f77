"""From the lines of leg S to StageTime records. Runs in the parent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from stoker.probe.stage_lines import Line, samples_of
from stoker.probe.stages import split_waiting
from stoker.records.profile import CostTrend, SampleCost, StageTime

_SLOWEST = 10
# A trend is told from this many samples on, over this many values, where the line explains this
# share of the variance: below it files or indices that cost more are a matter of chance.
_TREND_SAMPLES = 24
_TREND_VALUES = 8
_EXPLAINED = 0.3


def read_stages(lines: Iterable[Line]) -> tuple[StageTime, ...]:
    """Each stage's mean times per sample, the longest first; nothing when no batch was timed."""
    totals: dict[str, list[float]] = {}
    samples, where = 0, "worker"
    for line in lines:
        samples += line["samples"]
        where = line["where"]
        waiting = split_waiting(line["stages"], line["runqueue_ns"] or 0)
        for name, (calls, wall, cpu) in line["stages"].items():
            queued, blocked = waiting[name]
            total = totals.setdefault(name, [0.0] * 5)
            for place, value in enumerate((calls, wall, cpu, queued, blocked)):
                total[place] += value
    if not samples:
        return ()
    rows = [
        StageTime(
            stage=name,
            where=where,
            wall_s=wall / samples / 1e9,
            cpu_s=cpu / samples / 1e9,
            runqueue_s=queued / samples / 1e9,
            blocked_s=blocked / samples / 1e9,
            calls=calls / samples,
        )
        for name, (calls, wall, cpu, queued, blocked) in totals.items()
    ]
    return tuple(sorted(rows, key=lambda row: -row.wall_s))


def read_amplification(lines: Iterable[Line], sample_bytes: float) -> float | None:
    """Bytes of the files that a sample was read from, over its own bytes.

    Only where one file stood behind several samples: a file read anew for each of them. A picture
    that is larger than the tensor made of it is another thing.
    """
    indices: dict[str, set[object]] = {}
    sizes: list[float] = []
    for sample in samples_of(lines):
        if sample["path"] and sample["size"]:
            indices.setdefault(sample["path"], set()).add(sample["index"])
            sizes.append(sample["size"])
    if not sizes or sample_bytes <= 0 or max(map(len, indices.values())) < 2:
        return None
    return sum(sizes) / len(sizes) / sample_bytes


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
