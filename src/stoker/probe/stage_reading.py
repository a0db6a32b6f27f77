"""From the lines of leg S to StageTime records. Runs in the parent."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence

from stoker.probe.stage_lines import Line, later_lines, samples_of
from stoker.probe.stages import split_waiting
from stoker.records.profile import BESIDE, StageScaling, StageTime

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
    """Bytes that read calls gave for one sample, the mean over batches."""
    later = later_lines([line for line in lines if line.get("read_bytes") is not None])
    if not later:
        return None
    return float(sum(line["read_bytes"] for line in later) / sum(line["samples"] for line in later))
