"""Loaders told apart by object; one built anew takes the place of one that is gone."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.probe.tracks import Track, Tracks


class Loader:
    def __init__(self, name: str = "train", batches: int | None = 10, workers: int = 0) -> None:
        self.facts = {"dataset": name, "batches": batches, "samples": batches, "workers": workers}


class Iterator:
    pass


def tracks() -> Tracks:
    return Tracks(lambda loader: dict(loader.facts), lambda loader: ("copy of", loader.facts))


def follow(known: Tracks, loader: Any, *, learns: bool = True) -> Track:
    return known.follow(loader, Iterator(), learns=learns)


def test_a_loader_keeps_its_track_over_its_epochs() -> None:
    known, loader = tracks(), Loader()
    assert follow(known, loader) is follow(known, loader)


def test_an_iterator_leads_to_the_track_of_its_loader() -> None:
    known, iterator = tracks(), Iterator()
    track = known.follow(Loader(), iterator, learns=True)
    assert known.of_iterator(iterator) is track
    assert known.of_iterator(Iterator()) is None


def test_two_loaders_of_one_kind_that_both_live_are_two() -> None:
    known, train, validation = tracks(), Loader(), Loader()
    assert follow(known, train) is not follow(known, validation)


def test_a_loader_built_anew_takes_the_place_of_the_one_that_is_gone() -> None:
    known = tracks()
    first = follow(known, Loader())
    second = follow(known, Loader())
    assert second is first
    assert second.loader[0] == "copy of"


def test_a_loader_without_gradients_takes_no_training_loader_s_place() -> None:
    known = tracks()
    training = follow(known, Loader())
    validation = follow(known, Loader(), learns=False)
    assert validation is not training
    assert not validation.learns
    assert follow(known, Loader(), learns=False) is validation
    assert follow(known, Loader()) is training


@pytest.mark.parametrize("other", [Loader("other"), Loader(batches=11), Loader(workers=2)])
def test_a_loader_that_says_something_else_of_itself_is_another(other: Loader) -> None:
    known = tracks()
    assert follow(known, Loader()) is not follow(known, other)


def test_loaders_that_differ_only_in_what_they_hold_are_alike() -> None:
    known = tracks()
    one, longer, other = (
        follow(known, loader) for loader in (Loader(), Loader(batches=11), Loader("other"))
    )
    assert one.is_like(longer)
    assert not one.is_like(other)


def test_what_can_t_be_referenced_weakly_can_t_be_followed() -> None:
    with pytest.raises(TypeError):
        tracks().follow(Loader(), (), learns=True)
