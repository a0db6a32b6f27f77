"""The same change to each part of a batch, in containers that stay what they are."""

from __future__ import annotations

import dataclasses
from dataclasses import InitVar, dataclass, field
from typing import Any

import pytest

from stoker.containers import mapped
from tests.unit.own_mapping import Own


@dataclass
class Scaled:
    """Its constructor changes what it is given, and wants more than it keeps."""

    x: float
    factor: InitVar[float]
    total: float = field(init=False, default=0.0)

    def __post_init__(self, factor: float) -> None:
        self.x *= factor


@dataclass(frozen=True, slots=True)
class Frozen:
    x: float


@dataclass(frozen=True)
class FrozenByHand:
    __slots__ = ("x",)
    x: float


def _tenfold(value: float) -> float:
    return 10 * value


def test_a_dataclass_is_not_constructed_again() -> None:
    batch = Scaled(1.0, 2.0)
    batch.total = 7.0
    batch.name = "a"  # type: ignore[attr-defined]

    changed: Any = mapped(batch, _tenfold)

    assert (changed.x, changed.total, changed.name) == (20.0, 7.0, "a")
    assert (type(changed), batch.x) == (Scaled, 2.0)


@pytest.mark.parametrize("kind", [Frozen, FrozenByHand])
def test_a_frozen_dataclass_with_slots_is_changed_as_any_other(kind: Any) -> None:
    batch = kind(1.0)
    changed = mapped(batch, _tenfold)

    assert changed == kind(10.0)
    assert batch.x == 1.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        changed.x = 2.0


def test_a_mapping_of_the_scripts_own_is_left_as_it_was() -> None:
    batch = Own(x=1.0)
    changed = mapped(batch, _tenfold)

    assert (type(changed), dict(changed), dict(batch)) == (Own, {"x": 10.0}, {"x": 1.0})
