"""`stoker predict --validate ROWS.csv`: every row forecast, and how far off the known ones are."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from stoker.cli.files import JsonOutput
from stoker.cli.predict import deliver
from stoker.errors import EXIT_OK, InputError
from stoker.report.numbers import amount, percent
from stoker.report.prediction import columns
from stoker.theory.validate import RowForecast, forecast_row
from stoker.zoo.load import Zoo

_THROUGHPUT = "throughput_per_accel"
# What a table must have for a forecast, one of each; all other columns may be missing or empty.
_NEEDED = (("model", "model_id"), ("accel_id", "accelerator"))
_WORST = 10


class Band(msgspec.Struct, frozen=True):
    """A forecast rate, in the row's unit, with its 75 % band."""

    median: float
    low: float
    high: float


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """The forecast of one row, or the reason why there is none."""

    row_id: str
    samples_per_s: Band | None
    basis: str
    reason: str


class Validation(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` writes. `factor` is the geometric-mean error factor of the known rows."""

    schema: str = "stoker.validation/1"
    rows: tuple[Row, ...]
    factor: float | None


class _Known(NamedTuple):
    """A forecast row whose throughput is known: forecast over published."""

    row: dict[str, str]
    forecast: RowForecast
    published: float

    @property
    def ratio(self) -> float:
        assert self.forecast.samples_per_s is not None
        return self.forecast.samples_per_s.median / self.published

    @property
    def is_inside(self) -> bool:
        band = self.forecast.samples_per_s
        assert band is not None
        return band.low <= self.published <= band.high


def validate(path: str, zoo: Zoo, output: JsonOutput | None) -> int:
    """Forecast the rows of a table and print how well. Raises InputError for no such table."""
    rows = _read(path)
    forecasts = [forecast_row(row, zoo) for row in rows]
    known = [
        _Known(row, found, published)
        for row, found in zip(rows, forecasts, strict=True)
        if found.samples_per_s is not None and (published := _published(row)) is not None
    ]
    factor = _factor([one.ratio for one in known])
    answer = Validation(rows=tuple(_plain(found) for found in forecasts), factor=factor)
    deliver("\n".join(_lines(path, forecasts, known, factor)) + "\n", answer, output)
    return EXIT_OK


def _read(path: str) -> list[dict[str, str]]:
    try:
        with Path(path).open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            names = reader.fieldnames or ()
            missing = [either for either in _NEEDED if not set(either) & set(names)]
            if missing:
                raise InputError(
                    f"{path} has no column {' and no column '.join(map(' or '.join, missing))}",
                    looked_at="its columns " + (", ".join(names) or "(none)"),
                    run_next="give a column each; stack, layout, precision, family, "
                    "batch_per_accel, framework, input and unit are read where they are",
                )
            rows = [{key: value or "" for key, value in row.items() if key} for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(
            f"{path} cannot be read as a table: {getattr(error, 'strerror', None) or error}",
            looked_at=str(Path(path).absolute()),
            run_next="stoker predict --validate ROWS.csv",
        ) from error
    if not rows:
        raise InputError(
            f"{path} has no rows", looked_at=path, run_next="add a row below the column names"
        )
    for number, row in enumerate(rows, start=1):
        row.setdefault("row_id", str(number))
    return rows


def _published(row: dict[str, str]) -> float | None:
    """The row's own rate: for the comparison, never for the forecast."""
    try:
        value = float(row.get(_THROUGHPUT, ""))
    except ValueError:
        return None
    return value if value > 0 and math.isfinite(value) else None


def _factor(ratios: Sequence[float]) -> float | None:
    """The geometric-mean error factor: exp of the mean |ln ratio|; None without known rows."""
    if not ratios:
        return None
    return math.exp(math.fsum(abs(math.log(ratio)) for ratio in ratios) / len(ratios))


def _plain(found: RowForecast) -> Row:
    rate = found.samples_per_s
    return Row(
        row_id=found.row_id,
        samples_per_s=None if rate is None else Band(rate.median, rate.low, rate.high),
        basis=found.basis,
        reason=found.reason,
    )


def _lines(
    path: str, forecasts: Sequence[RowForecast], known: Sequence[_Known], factor: float | None
) -> list[str]:
    made = [found for found in forecasts if found.samples_per_s is not None]
    lines = [f"{path}: {len(forecasts)} rows, {len(made)} forecast, {len(known)} with a known rate"]
    if known and factor is not None:
        ratios = sorted(abs(math.log(one.ratio)) for one in known)
        inside = sum(one.is_inside for one in known) / len(known)
        lines += [
            "",
            f"error factor (geometric mean)   {factor:.3f}",
            f"median                          {math.exp(ratios[len(ratios) // 2]):.3f}",
            f"within x/: 1.25                 {percent(_within(ratios, 1.25))}",
            f"within x/: 2                    {percent(_within(ratios, 2))}",
            f"inside the 75% band             {percent(inside)}",
            "",
            *_grouped(known, "family"),
            "",
            "the worst rows",
            *_worst(known),
        ]
    reasons = [found for found in forecasts if found.samples_per_s is None]
    if reasons:
        lines += ["", f"not forecast: {len(reasons)} rows"]
        lines += [f"  row {found.row_id}: {found.reason}" for found in reasons[:_WORST]]
        if len(reasons) > _WORST:
            lines.append(f"  and {len(reasons) - _WORST} more; --json FILE has every reason")
    return lines


def _within(sorted_logs: Sequence[float], factor: float) -> float:
    return sum(value <= math.log(factor) for value in sorted_logs) / len(sorted_logs)


def _grouped(known: Sequence[_Known], column: str) -> list[str]:
    groups: dict[str, list[float]] = {}
    for one in known:
        groups.setdefault(one.row.get(column, "") or "(none)", []).append(one.ratio)
    rows = [
        (
            name,
            f"{len(ratios)}",
            f"{_factor(ratios):.3f}",
            f"{math.exp(math.fsum(map(math.log, ratios)) / len(ratios)):.2f}",
        )
        for name, ratios in sorted(groups.items(), key=lambda item: -len(item[1]))
    ]
    return columns((column, "rows", "error factor", "forecast/known"), rows)


def _worst(known: Sequence[_Known]) -> list[str]:
    worst = sorted(known, key=lambda one: -abs(math.log(one.ratio)))[:_WORST]
    return columns(
        ("row", "model", "accelerator", "known", "forecast", "ratio"),
        [
            (
                one.forecast.row_id,
                (one.row.get("model") or one.row["model_id"])[:28],
                one.row.get("accel_id") or one.row["accelerator"],
                amount(one.published, "/s"),
                amount(one.published * one.ratio, "/s"),
                f"{one.ratio:.2f}",
            )
            for one in worst
        ],
        left=3,
    )
