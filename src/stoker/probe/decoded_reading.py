"""From the lines of leg S to what is decoded for a sample, and used of it. Runs in the parent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stoker.probe.delivered import BYTE
from stoker.probe.hooks.calls import ROW, ROW_OF_TABLE
from stoker.probe.stage_lines import Line, later_lines
from stoker.records.profile import Decoded, Unit


def read_decoded(lines: Sequence[Line]) -> tuple[Decoded, ...]:
    """What was decoded and what was delivered, over all samples of leg S together.

    Together, because what is decoded for one sample may be kept for others.
    """
    later = later_lines([line for line in lines if "decoded" in line])
    samples = sum(line["samples"] for line in later)
    found: dict[str, tuple[str, int, int]] = {}
    for line in later:
        for stage, (unit, count, besides) in line["decoded"].items():
            _, before, others = found.get(stage, (unit, 0, 0))
            found[stage] = unit, before + count, others + besides
    rows = [
        Decoded(
            unit=Unit.ROW,
            stages=(stage,),
            decoded=count / samples,
            used=(besides if unit == ROW else _of_table(later, samples, count, besides)) / samples,
        )
        for stage, (unit, count, besides) in found.items()
        if unit in (ROW, ROW_OF_TABLE)
    ]
    others = [
        Decoded(
            unit=unit,
            stages=tuple(stage for stage, (of, *_) in found.items() if of == unit),
            decoded=sum(count for of, count, _ in found.values() if of == unit) / samples,
            used=_delivered(later, unit) / samples or None,
        )
        for unit in (Unit.FRAME, Unit.AUDIO_FRAME, Unit.PIXEL)
        if unit in {of for of, *_ in found.values()}
    ]
    return (*others, *rows)


def _of_table(lines: Iterable[Line], samples: int, rows: int, size: int) -> float:
    """Rows that the delivered bytes would fill; each sample comes from a row at least."""
    filled = _delivered(lines, BYTE) * rows / size if size else 0.0
    return min(float(rows), max(float(samples), filled))


def _delivered(lines: Iterable[Line], unit: str) -> int:
    """Units in all batches; none where it could not be told of one of them."""
    told = [line["delivered"] for line in lines]
    return sum(one[unit] for one in told) if all(told) else 0
