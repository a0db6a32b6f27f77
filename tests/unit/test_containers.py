"""The same change to each part of a batch, in containers that stay what they are."""

from __future__ import annotations

import dataclasses
from dataclasses import InitVar, dataclass, field
from typing import Any, NamedTuple

import pytest

from stoker.containers import leaves, mapped
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
    return 10 * value if isinstance(value, float) else value


def test_a_dataclass_is_not_constructed_again_and_all_that_it_holds_is_changed() -> None:
    batch = Scaled(1.0, 2.0)
    batch.total = 7.0
    batch.more = [3.0]  # type: ignore[attr-defined]
    batch.name = "a"  # type: ignore[attr-defined]

    changed: Any = mapped(batch, _tenfold)

    assert (changed.x, changed.total, changed.more, changed.name) == (20.0, 70.0, [30.0], "a")
    assert (type(changed), batch.x, batch.more) == (Scaled, 2.0, [3.0])  # type: ignore[attr-defined]
    assert list(leaves(batch)) == [2.0, 7.0, 3.0, "a"]


def test_a_field_that_nobody_has_set_is_none_to_be_changed() -> None:
    batch: Any = Scaled.__new__(Scaled)
    batch.x = 1.0
    assert mapped(batch, _tenfold).__dict__ == {"x": 10.0}


def test_a_batch_that_holds_itself_is_changed_once() -> None:
    batch: Any = Scaled(1.0, 1.0)
    batch.owner = [batch]
    changed = mapped(batch, _tenfold)
    assert changed.x == 10.0 and changed.owner == [batch]


class Named(NamedTuple):
    x: float
    y: float


class Sum(Named):
    """A named tuple with a constructor of its own."""

    def __new__(cls, x: float) -> Sum:
        return super().__new__(cls, x, x + 1.0)


def test_a_named_tuple_is_not_constructed_again() -> None:
    changed = mapped(Sum(1.0), _tenfold)
    assert type(changed) is Sum and tuple(changed) == (10.0, 20.0)


def test_what_is_named_as_a_leaf_is_given_whole() -> None:
    changed = mapped([{"x": 1.0}, 2.0], lambda one: (one,), is_leaf=lambda v: type(v) is dict)
    assert changed == [({"x": 1.0},), (2.0,)]
    assert list(leaves([{"x": 1.0}], is_leaf=lambda v: type(v) is dict)) == [{"x": 1.0}]


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
