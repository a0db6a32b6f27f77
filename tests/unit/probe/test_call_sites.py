"""What a frame calls at this moment, whatever else stands on its line."""

from __future__ import annotations

import sys
from types import SimpleNamespace

from stoker.probe.call_sites import CallSites


def asked(*_: object) -> str | None:
    """What the caller is calling."""
    return CallSites().callee(sys._getframe(1))


BOX = SimpleNamespace(item=asked, cpu=asked, boxes=[SimpleNamespace(numpy=asked)])


def test_the_call_under_way_is_told_and_not_its_neighbours() -> None:
    told = [float("1"), BOX.item(), "µ", BOX.cpu(), int(BOX.boxes[0].numpy() is None), asked()]
    assert told == [1.0, "item", "µ", "cpu", 0, "asked"]


def test_a_call_of_many_lines_is_one() -> None:
    told = BOX.item(
        "first",
        "second",
    )
    assert told == "item"


def test_an_argument_that_is_being_computed_is_not_the_call_around_it() -> None:
    told = list(map(str, (BOX.cpu(asked()),)))
    assert told == ["cpu"]
    inner: list[str | None] = []
    BOX.item(inner.append(asked()))
    assert inner == ["asked"]


def test_what_has_no_name_or_no_source_is_not_told() -> None:
    nameless = [asked][0]()
    without_source = eval("BOX.item()")
    assert (nameless, without_source) == (None, None)


def test_a_place_is_looked_at_once_and_told_apart_from_others() -> None:
    sites = CallSites()
    box = SimpleNamespace(
        item=lambda: sites.callee(sys._getframe(1)), cpu=lambda: sites.callee(sys._getframe(1))
    )
    for _ in range(2):
        first, second = box.item(), box.cpu()
        assert (first, second) == ("item", "cpu")


def rooted(*_: object) -> str | None:
    """What the caller's call begins with."""
    return CallSites().root(sys._getframe(1))


def test_the_first_name_of_a_call_is_told() -> None:
    box = SimpleNamespace(item=rooted, boxes=[SimpleNamespace(of=lambda: BOX)])
    BOX.root = rooted
    assert [box.item(), rooted(), box.boxes[0].of().root()] == ["box", "rooted", "box"]
    assert [rooted][0]() is None
