"""The script's order survives every change of hands."""

from __future__ import annotations

import random

import pytest

from stoker.remedy.indices import Indices, Tap


def test_closing_stops_the_reader_and_loses_nothing() -> None:
    indices = Indices(iter(range(6)))
    tap = Tap(6)
    tap.connect(indices)
    taking = iter(tap)
    first = [next(taking) for _ in range(2)]
    indices.delivered()
    indices.delivered()
    indices.close()
    assert list(taking) == []
    assert not indices.is_over
    indices.reopen()
    assert first + list(taking) == list(range(6))
    assert indices.is_over


def test_what_was_handed_on_and_never_delivered_comes_again_first() -> None:
    indices = Indices(iter(range(6)))
    taken = [indices.take() for _ in range(4)]
    indices.delivered()
    assert indices.in_flight == (1, 2, 3)
    indices.reopen()
    again = [indices.take() for _ in range(5)]
    assert [*taken[:1], *again] == list(range(6))


def test_in_other_hands_all_that_was_not_delivered_goes_on_and_the_old_ones_get_nothing() -> None:
    indices = Indices(iter(range(6)))
    tap = Tap(6)
    tap.connect(indices)
    stuck = iter(tap)
    assert [next(stuck) for _ in range(3)] == [0, 1, 2]
    indices.delivered()
    indices.pull_ahead(1)
    others = indices.moved()
    tap.connect(others)
    assert list(stuck) == []
    assert list(tap) == [1, 2, 3, 4, 5]


def test_an_iterator_takes_nothing_of_the_pass_behind_its_own() -> None:
    tap = Tap(3)
    tap.connect(Indices(iter([])))
    stuck = iter(tap)
    tap.connect(Indices(iter(range(3))))
    assert list(stuck) == []
    assert list(tap) == [0, 1, 2]


def test_pulling_ahead_reads_the_sampler_early_and_in_order() -> None:
    pulled = []

    def sampler():
        for number in range(5):
            pulled.append(number)
            yield number

    indices = Indices(sampler())
    indices.pull_ahead(3)
    assert pulled == [0, 1, 2]
    assert [indices.take() for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(StopIteration):
        indices.take()
    assert indices.is_over


def test_any_sequence_of_changes_gives_every_entry_once_and_in_order() -> None:
    chance = random.Random(3)
    for _ in range(200):
        count = chance.randrange(30)
        indices = Indices(iter(range(count)))
        delivered = []
        while not (indices.is_over and not indices.in_flight):
            for _ in range(chance.randrange(1, 5)):
                try:
                    indices.take()
                except StopIteration:
                    break
            for _ in range(chance.randrange(4)):
                if indices.in_flight:
                    delivered.append(indices.in_flight[0])
                    indices.delivered()
            if chance.random() < 0.3:
                indices.close()
                indices.reopen()
        assert delivered == list(range(count))


def test_a_sampler_without_a_length_stays_without_one() -> None:
    with pytest.raises(TypeError):
        len(Tap(None))
