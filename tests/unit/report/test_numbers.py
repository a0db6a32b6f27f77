"""Units that fit, digits that the interval justifies, nothing unknown shown as a number."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.report import numbers
from stoker.stats import Spread

_KINDS = st.sampled_from(["s", "share", "x", "bytes", "bytes/s", "cores", "samples/s", ""])


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (1.234, "s", "1.23 s"),
        (123.4, "s", "123 s"),
        (0.312, "s", "312 ms"),
        (0.0801, "s", "80.1 ms"),
        (0.0004, "s", "400 µs"),
        (4e-7, "s", "400 ns"),
        (0.0, "s", "0 ms"),
        (-0.0012, "s", "−1.20 ms"),
        (0.256, "share", "25.6%"),
        (0.004, "share", "0.4%"),
        (1.0, "share", "100%"),
        (1.943, "x", "1.94x"),
        (12.34, "x", "12.3x"),
        (4_816_896.0, "bytes", "4.82 MB"),
        (512.0, "bytes", "512 B"),
        (2.5e9, "bytes/s", "2.50 GB/s"),
        (2.0, "cores", "2 cores"),
        (7.46, "cores", "7.5 cores"),
        (0.62, "cores", "0.62 cores"),
        (123_456.0, "samples/s", "123,456 samples/s"),
        (None, "s", "not measured"),
        (math.nan, "s", "not measured"),
        (math.inf, "cores", "∞ cores"),
    ],
)
def test_a_number_is_shown_in_the_unit_that_fits(value: float | None, kind: str, text: str) -> None:
    assert numbers.amount(value, kind) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.9996, "1.00 s"), (0.0009996, "1.00 ms"), (0.999, "999 ms")],
)
def test_a_number_that_rounds_up_to_the_next_unit_is_shown_in_it(value: float, text: str) -> None:
    assert numbers.amount(value, "s") == text


@pytest.mark.parametrize(
    ("spread", "kind", "text"),
    [
        (Spread(0.312, 0.305, 0.320), "s", "312 ms (305–320)"),
        (Spread(0.0801, 0.0796, 0.0806), "s", "80.1 ms (79.6–80.6)"),
        (Spread(3.87, 2.1, 5.6), "s", "3.9 s (2.1–5.6)"),
        (Spread(0.74, 0.72, 0.76), "share", "74% (72–76)"),
        (Spread(0.54412, 0.54321, 0.54503), "share", "54.4% (54.3–54.5)"),
        (Spread(1.94, 1.88, 2.01), "x", "1.94x (1.88–2.01)"),
        (Spread(-0.0012, -0.003, 0.0002), "s", "−1.2 ms (−3.0 to 0.2)"),
        (Spread.exact(8.0), "cores", "8 cores"),
        (Spread(0.2, -math.inf, math.inf), "s", "200 ms (no interval)"),
        (Spread(0.2, 0.1, math.inf), "s", "200 ms (at least 100)"),
        (Spread(0.2, -math.inf, 0.3), "s", "200 ms (at most 300)"),
        (Spread(math.nan, -math.inf, math.inf), "s", "not measured"),
        (None, "s", "not measured"),
    ],
)
def test_an_interval_stands_beside_its_number_in_the_same_unit(
    spread: Spread | None, kind: str, text: str
) -> None:
    assert numbers.spread(spread, kind) == text


def test_a_narrow_interval_shows_one_more_digit_and_a_wide_one_fewer() -> None:
    assert numbers.spread(Spread(0.01234, 0.01233, 0.01235), "s") == "12.34 ms (12.33–12.35)"
    assert numbers.spread(Spread(0.0123, 0.008, 0.017), "s") == "12 ms (8–17)"


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "0%"),
        (0.003, "0.3%"),
        (0.256, "26%"),
        (0.997, "99.7%"),
        (0.99, "99%"),
        (1.0, "100%"),
        (-0.007, "−0.7%"),
        (None, "not measured"),
        (math.nan, "not measured"),
    ],
)
def test_a_percentage_is_whole_unless_it_would_read_as_none_or_all(
    share: float | None, text: str
) -> None:
    assert numbers.percent(share) == text


def test_numbers_that_are_compared_share_the_unit_of_the_first() -> None:
    assert numbers.alike((0.0489, 0.0467, 7.6e-7, 0.0), "s") == (
        "48.9 ms",
        "46.7 ms",
        "0.0 ms",
        "0.0 ms",
    )


def test_a_rounded_zero_has_no_sign() -> None:
    assert numbers.fixed(-0.0001, 2) == "0.00"


@given(st.floats(), st.floats(), st.floats(), _KINDS)
def test_no_number_however_odd_raises(median: float, low: float, high: float, kind: str) -> None:
    assert numbers.spread(Spread(median, low, high), kind)
    assert numbers.amount(median, kind)
    assert numbers.percent(median)


@given(st.floats(1e-6, 1e3), st.floats(0.0, 0.3))
def test_a_shown_number_is_within_its_last_digit_of_the_stored_one(
    median: float, half_width: float
) -> None:
    spread = Spread(median, median * (1 - half_width), median * (1 + half_width))
    scale = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}

    number, unit = numbers.spread(spread, "s").split(" ")[:2]

    shown = float(number.replace(",", "")) * scale[unit]
    assert shown == pytest.approx(median, rel=0.06)  # two digits at least
