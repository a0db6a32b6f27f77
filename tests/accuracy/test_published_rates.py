"""The shipped constants against published rates, batches and formulas (benchmarks/accuracy.py)."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import numpy as np
import pytest

from benchmarks import accuracy
from benchmarks.fit_step_time import run
from benchmarks.record import RESULTS
from benchmarks.step_rows import Observed, big_table, published, submissions
from stoker.theory.constants import fitted
from stoker.theory.memory import memory_bytes
from stoker.theory.step import forecast_case
from stoker.zoo.load import PACKAGED, Zoo

ZOO = Zoo((PACKAGED,))
# The memory of the device that the big table was measured on.
MEMORY = 24e9


@pytest.fixture(scope="module")
def rows() -> list[Observed]:
    return [row for row in published(ZOO) if not row.is_free]


def off(rows: Sequence[Observed]) -> dict[str, float]:
    """log(forecast / published seconds) of each row with the shipped constants."""
    return {
        row.row_id: math.log(forecast_case(row.case).seconds.median / row.case.batch / row.seconds)
        for row in rows
    }


def test_published_rates_are_met_within_a_tenth_and_better_than_by_any_simple_formula(
    rows: list[Observed],
) -> None:
    ours = accuracy.factor(off(rows).values())
    assert ours < 1.10
    for formula in (accuracy.tutorial, accuracy.tutorial_training, accuracy.two_term):
        assert ours < accuracy.factor(accuracy.of_formula(rows, formula).off.values())


def test_three_quarters_of_the_rows_lie_in_the_band_that_is_printed(rows: list[Observed]) -> None:
    inside = 0
    for row in rows:
        seconds = forecast_case(row.case).seconds
        inside += seconds.low <= row.seconds * row.case.batch <= seconds.high
    assert inside / len(rows) >= 0.70


def test_the_kept_result_holds_what_is_claimed_of_unseen_rows() -> None:
    kept = json.loads((RESULTS / "accuracy.json").read_text())["rows"]
    assert all(row["passed"] for row in kept.values())
    device = kept["ours, accelerator unseen"]["numbers"]
    model = kept["ours, model unseen"]["numbers"]
    assert device["factor"] <= accuracy.MOST_NEW_DEVICE
    assert model["factor"] <= accuracy.MOST_NEW_MODEL
    assert device["rows"] >= 280


def test_most_batches_that_a_device_took_fit_and_most_that_it_refused_do_not() -> None:
    table = [row for row in big_table(ZOO) if row.case.batch >= 8]
    sizes = sorted({row.case.batch for row in table})
    took, refused = [], []
    for row in table:
        case = row.case

        def fits(batch: float, case: object = case) -> bool:
            needed = memory_bytes(
                case.model,  # type: ignore[attr-defined]
                batch=batch,
                precision=case.precision,  # type: ignore[attr-defined]
                training=True,
            )
            return needed <= MEMORY

        took.append(fits(case.batch))
        larger = [size for size in sizes if size > case.batch]
        if larger:
            refused.append(not fits(larger[0]))
    assert np.mean(took) > 0.75
    assert np.mean(refused) > 0.75


@pytest.mark.full
def test_the_shipped_constants_are_those_that_the_tables_give() -> None:
    again = run(ZOO).fit.constants
    shipped = fitted().constants
    assert set(again) == set(shipped)
    for name, value in again.items():
        assert shipped[name] == pytest.approx(value, rel=0.02), name


@pytest.mark.full
def test_every_submission_can_be_resolved() -> None:
    assert len(submissions(ZOO)) > 300
