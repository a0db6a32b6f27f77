"""`--fail-on 'starved>10%,au<0.9'`: conditions on a diagnosis that make the command fail."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from stoker.errors import UsageError

if TYPE_CHECKING:
    from stoker.records.diagnosis import Diagnosis

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_EXPRESSION = re.compile(r"\s*([a-z_]+)\s*(>=|<=|>|<)\s*(\d+(?:\.\d+)?|\.\d+)\s*(%?)\s*")
_EXAMPLE = "stoker doctor --fail-on 'starved>10%' SCRIPT"


class _Quantity(NamedTuple):
    """A number of a diagnosis that can be gated."""

    read: Callable[[Diagnosis], float | None]
    is_share: bool


_QUANTITIES: dict[str, _Quantity] = {
    "starved": _Quantity(lambda diagnosis: diagnosis.verdict.lost_share.median, is_share=True),
    "au": _Quantity(lambda diagnosis: diagnosis.step.au, is_share=True),
    "cores_needed": _Quantity(lambda diagnosis: diagnosis.host.cores_needed, is_share=False),
}


class Gate(NamedTuple):
    """One condition under which the command fails. Shares are fractions."""

    text: str
    name: str
    operator: str
    limit: float

    def failure(self, diagnosis: Diagnosis) -> str | None:
        """The line to tell when it fails. A number that wasn't measured fails too."""
        quantity = _QUANTITIES[self.name]
        value = quantity.read(diagnosis)
        if value is None or math.isnan(value):
            return f"gate failed: {self.text}: {self.name} was not measured"
        if not _OPERATORS[self.operator](value, self.limit):
            return None
        shown = f"{value:.1%}" if quantity.is_share else f"{value:.3g}"
        return f"gate failed: {self.text}: {self.name} is {shown}"


def parse(expression: str) -> tuple[Gate, ...]:
    """The gates of a comma-separated list. Raises UsageError, naming what is allowed."""
    return tuple(_gate(text.strip()) for text in expression.split(","))


def _gate(text: str) -> Gate:
    match = _EXPRESSION.fullmatch(text)
    if match is None:
        raise _refused(text, "is not NAME OPERATOR NUMBER")
    name, sign, number, percent = match.groups()
    quantity = _QUANTITIES.get(name)
    if quantity is None:
        raise _refused(text, f"names {name!r}, which is unknown")
    if percent and not quantity.is_share:
        raise _refused(text, f"gives {name} in percent, but it is a number of cores")
    limit = float(number) / (100 if percent else 1)
    # 'starved>10' would never fail: somebody meant ten percent, and a gate must not be silent.
    if quantity.is_share and (limit > 1 or (sign == ">" and limit == 1)):
        raise _refused(text, f"compares a share, which is at most 1: write {number}% or a fraction")
    if sign == "<" and limit == 0:
        raise _refused(text, f"can never hold: {name} is not below 0")
    return Gate(text, name, sign, limit)


def _refused(text: str, why: str) -> UsageError:
    return UsageError(
        f"--fail-on: {text!r} {why}",
        looked_at=f"names {', '.join(_QUANTITIES)}; operators {' '.join(_OPERATORS)}; "
        "a number or a percentage; several with commas",
        run_next=_EXAMPLE,
    )
