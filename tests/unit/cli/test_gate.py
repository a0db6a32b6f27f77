"""Conditions on a diagnosis: read strictly, failed honestly."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace

from stoker.cli import gate
from stoker.errors import UsageError
from stoker.stats import Spread
from tests.golden.diagnoses import inconclusive, serial_loader


@pytest.mark.parametrize(
    ("expression", "limit"),
    [
        ("starved>10%", 0.1),
        (" starved >= 0.1 ", 0.1),
        ("starved>.1", 0.1),
        ("starved > 12.5 %", 0.125),
        ("au<90%", 0.9),
        ("au<1", 1.0),
        ("au<100%", 1.0),
        ("starved>0", 0.0),
        ("cores_needed>8", 8.0),
        ("cores_needed>7.5", 7.5),
    ],
)
def test_a_limit_is_a_fraction_a_percentage_or_a_number_of_cores(
    expression: str, limit: float
) -> None:
    (one,) = gate.parse(expression)

    assert one.limit == pytest.approx(limit)


@pytest.mark.parametrize(
    ("expression", "fails"),
    [
        ("starved>10%", True),
        ("starved>58.2%", False),
        ("starved>=0.582", True),
        ("starved<60%", True),
        ("starved<=58%", False),
        ("au<50%", True),
        ("au>50%", False),
        ("cores_needed>1", True),
        ("cores_needed>1.4", False),
    ],
)
def test_a_gate_fails_when_its_condition_holds(expression: str, fails: bool) -> None:
    (one,) = gate.parse(expression)

    assert (one.failure(serial_loader()) is not None) is fails


def test_a_failed_gate_tells_the_condition_and_the_number() -> None:
    (one,) = gate.parse("starved>10%")

    assert one.failure(serial_loader()) == "gate failed: starved>10%: starved is 58.2%"


def test_several_gates_are_read_from_one_list() -> None:
    gates = gate.parse("starved>10%, au<0.9,cores_needed>8")

    assert [one.name for one in gates] == ["starved", "au", "cores_needed"]


@pytest.mark.parametrize("name", ["starved", "au", "cores_needed"])
def test_a_number_that_was_not_measured_fails_rather_than_passes(name: str) -> None:
    seen = inconclusive()
    verdict = replace(seen.verdict, lost_share=Spread(math.nan, -math.inf, math.inf))
    unknown = replace(seen, verdict=verdict, step=replace(seen.step, au=None))

    (one,) = gate.parse(f"{name}>0.5")

    assert one.failure(unknown) == f"gate failed: {name}>0.5: {name} was not measured"


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("", "'' is not NAME OPERATOR NUMBER"),
        ("starved", "'starved' is not NAME"),
        ("starved>", "'starved>' is not NAME"),
        ("starved>ten", "'starved>ten' is not NAME"),
        ("starved==10%", "'starved==10%' is not NAME"),
        ("starved=>10%", "'starved=>10%' is not NAME"),
        ("starved>-1%", "'starved>-1%' is not NAME"),
        ("starved>10%,", "'' is not NAME"),
        ("starved>inf", "'starved>inf' is not NAME"),
        ("starvd>10%", "'starvd>10%' names 'starvd', which is unknown"),
        ("cores_needed>10%", "'cores_needed>10%' gives cores_needed in percent"),
        ("starved>10", "'starved>10' compares a share, which is at most 1: write 10%"),
        ("starved>1", "'starved>1' compares a share"),
        ("starved>150%", "'starved>150%' compares a share"),
        ("au<0%", "'au<0%' can never hold: au is not below 0"),
        ("cores_needed<0", "'cores_needed<0' can never hold"),
    ],
)
def test_an_expression_that_makes_no_sense_is_refused(expression: str, why: str) -> None:
    with pytest.raises(UsageError) as refusal:
        gate.parse(expression)

    assert refusal.value.happened.startswith(f"--fail-on: {why}")
    assert "starved, au, cores_needed" in refusal.value.looked_at
