"""What a rule says when it holds: a verdict before it is put together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stoker.diagnose.facts import Facts
from stoker.records.diagnosis import Evidence, Part, VerdictCode
from stoker.stats import Spread


@dataclass(frozen=True)
class Finding:
    """One part of the ledger that is not the device's."""

    part: Part
    seconds: float
    share: float


@dataclass(frozen=True)
class Judgement:
    """The code, the sentence and what was seen."""

    code: VerdictCode
    sentence: str
    evidence: tuple[Evidence, ...]
    kind: str | None = None


@dataclass(frozen=True)
class Weighed:
    """A judgement, and the seconds of a step that mending it could win.

    Infinite for what ends a run, or holds up all ranks: that goes before all else.
    """

    judgement: Judgement
    seconds: float


Rule = Callable[[Facts], Judgement | None]


def row(claim: str, measured: Spread | float, against: str, leg: str, unit: str = "s") -> Evidence:
    """One row of evidence; a plain number is exact."""
    spread = measured if isinstance(measured, Spread) else Spread.exact(measured)
    return Evidence(claim=claim, measured=spread, unit=unit, compared_with=against, leg=leg)
