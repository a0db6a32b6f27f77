"""stoker.watch outside of the doctor: nothing but what it was given."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import stoker
from stoker import watched


def test_without_the_doctor_the_very_same_object_comes_back() -> None:
    for batches in ([1, 2], (n for n in range(3)), {"a": 1}, range(3)):
        assert stoker.watch(batches) is batches


def test_a_generator_is_closed_when_the_loop_is_left() -> None:
    closed = []

    def batches() -> Iterator[int]:
        try:
            yield from range(10)
        finally:
            closed.append(True)

    for number in stoker.watch(batches(), name="train"):
        if number == 2:
            break
    assert closed == [True]


def test_an_observer_is_given_the_iterable_and_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched, "observer", lambda batches, name: (batches, name))
    batches = [1, 2]
    assert stoker.watch(batches, name="val") == (batches, "val")
    assert stoker.watch(batches) == (batches, "train")
