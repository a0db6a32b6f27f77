"""Quantities in and out; what is no such quantity is refused by name."""

from __future__ import annotations

import subprocess
import sys

import pytest

import stoker.units
from stoker.errors import InputError
from stoker.units import Q_, Dimension, from_si, rounded, text, to_si


@pytest.mark.parametrize(
    ("given", "dimension", "expected"),
    [
        ("500 KB", Dimension.BYTES, 5e5),
        ("500kB", Dimension.BYTES, 5e5),
        ("2 GB/s", Dimension.BYTE_RATE, 2e9),
        ("1.5 GiB", Dimension.BYTES, 1.5 * 2**30),
        ("1,250 img/s", Dimension.SAMPLE_RATE, 1250.0),
        ("20 ms", Dimension.TIME, 0.02),
        ("0.5 sec", Dimension.TIME, 0.5),
        ("312 TFLOP/s", Dimension.FLOP_RATE, 312e12),
        (".3 us", Dimension.TIME, 3e-7),
    ],
)
def test_text_and_quantities_are_read_alike(
    given: str, dimension: Dimension, expected: float
) -> None:
    assert to_si(given, dimension, name="it") == pytest.approx(expected)
    assert to_si(Q_(given.replace(",", "")), dimension, name="it") == pytest.approx(expected)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("850 img/s", "has the wrong dimension"),
        (Q_("850 img/s"), "has the wrong dimension"),
        (Q_("2 GB"), "has the wrong dimension"),
        ("2 GB", "has the wrong dimension"),
        ("2", "has no unit"),
        (2e9, "has no unit"),
        ("2 parsec/s", "has an unknown unit"),
        ("fast", "is not a number with a unit"),
        ("-2 GB/s", "is negative"),
        (Q_("-2 GB/s"), "is negative"),
        ("0 GB/s", "is zero"),
        (Q_(0, "GB/s"), "is zero"),
        ("nan GB/s", "is not a number"),
        (Q_(float("nan"), "GB/s"), "is not a number"),
        ("inf GB/s", "is infinite"),
        (Q_(float("inf"), "GB/s"), "is infinite"),
    ],
)
def test_what_is_no_byte_rate_is_refused_and_named(given: object, problem: str) -> None:
    with pytest.raises(InputError, match=f"CPU throughput {problem}") as caught:
        to_si(given, Dimension.BYTE_RATE, name="CPU throughput")
    assert caught.value.looked_at and caught.value.run_next


def test_an_unknown_unit_of_a_quantity_is_an_input_error() -> None:
    with pytest.raises(InputError, match="parsec"):
        Q_("3 parsec")


def test_samples_are_counts_and_bytes_are_not() -> None:
    assert Q_("850 img/s").to("1/s").magnitude == 850
    assert Q_("10 Gbit/s").to("GB/s").magnitude == pytest.approx(1.25)
    assert not Q_("1 B/s").check(Q_("1 img/s").dimensionality)


def test_a_quantity_of_another_registry_is_read_by_the_names_of_its_units() -> None:
    import pint

    other = pint.UnitRegistry()
    assert to_si(other.Quantity(2, "GB/s"), Dimension.BYTE_RATE, name="it") == 2e9


def test_units_can_be_imported_by_name() -> None:
    from stoker.units import GB, ms

    assert (2 * GB).to("B").magnitude == 2e9
    assert (3 * ms).to("s").magnitude == pytest.approx(0.003)
    assert stoker.units.ureg is Q_("1 s")._REGISTRY
    with pytest.raises(AttributeError, match="no attribute 'parsec'"):
        stoker.units.parsec  # noqa: B018


@pytest.mark.parametrize(
    ("value", "dimension", "shown"),
    [
        (0.01397141, Dimension.TIME, "14.0 ms"),
        (3.2, Dimension.TIME, "3.20 s"),
        (2.5e-6, Dimension.TIME, "2.50 µs"),
        (0.0, Dimension.TIME, "0 ns"),
        (114660.0, Dimension.BYTES, "115 kB"),
        (999.9, Dimension.BYTES, "1.00 kB"),
        (2.039e12, Dimension.BYTE_RATE, "2.04 TB/s"),
        (2470.3, Dimension.SAMPLE_RATE, "2,470 samples/s"),
        (312e12, Dimension.FLOP_RATE, "312 TFLOP/s"),
    ],
)
def test_numbers_are_shown_with_three_digits_and_a_prefix(
    value: float, dimension: Dimension, shown: str
) -> None:
    assert text(value, dimension) == shown


def test_a_quantity_prints_its_short_unit_with_and_without_a_precision() -> None:
    assert str(from_si(2e9, Dimension.BYTE_RATE).to("GB/s")) == "2.0 GB/s"
    assert f"{Q_('2 GB/s'):.2f}".replace(" ", "") == "2.00GB/s"
    assert rounded(0.02136) == "0.0214"


def test_pint_is_not_imported_before_a_quantity_is_made() -> None:
    code = (
        "import sys, stoker.units as u; u.to_si('2 GB/s', u.Dimension.BYTE_RATE, name='it');"
        "assert 'pint' not in sys.modules; u.Q_('2 GB/s'); assert 'pint' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
