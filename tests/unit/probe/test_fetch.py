"""A fetch tells the script's own failures from the probe's, and shows none of its frames."""

from __future__ import annotations

import traceback

import pytest

from stoker.probe.fetch import Fetch


def _fails() -> int:
    raise ValueError("sample 3 is broken")


def test_what_was_fetched_is_not_fetched_again() -> None:
    calls: list[int] = []

    def call() -> int:
        calls.append(1)
        return len(calls)

    fetch = Fetch(call)
    assert fetch() == 1
    assert fetch.once() == 1
    assert calls == [1]


def test_what_was_not_fetched_yet_is_fetched_then() -> None:
    assert Fetch(lambda: 5).once() == 5


def test_the_error_of_the_script_is_known_again_and_any_other_is_not() -> None:
    fetch = Fetch(_fails)
    with pytest.raises(ValueError, match="sample 3 is broken") as caught:
        fetch()

    assert not fetch.has_raised(ValueError("another"))
    assert fetch.has_raised(caught.value)
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-1] == "_fails"
    assert "__call__" not in names


def test_an_end_of_the_loader_is_the_script_s_own_too() -> None:
    fetch = Fetch(lambda: next(iter(())))
    with pytest.raises(StopIteration) as caught:
        fetch()
    assert fetch.has_raised(caught.value)
