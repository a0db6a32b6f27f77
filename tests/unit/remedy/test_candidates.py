"""What may be tried on a loader, and the loaders that are made for it: real ones of torch."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterator
from typing import Any

import pytest

from stoker.probe.offers import Candidate, Unsuitable
from stoker.random_state import states
from stoker.remedy import candidates as module
from stoker.remedy.candidates import LoaderOffers
from stoker.remedy.settings import REORDERED

torch = pytest.importorskip("torch")
pytest.importorskip("numpy.random")  # imported meanwhile, it would look like random numbers drawn
BATCH_BYTES = 1000


class Numbers(torch.utils.data.Dataset):  # type: ignore[misc]
    def __len__(self) -> int:
        return 400

    def __getitem__(self, index: int) -> Any:
        return torch.full((4,), float(index)), index


class Rotated(Numbers):
    def __getitem__(self, index: int) -> Any:
        return torch.rand(4), index


class Broken(Numbers):
    def __getitem__(self, index: int) -> Any:
        raise OSError("no such file")


class Batched(Numbers):
    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [self[index] for index in indices]


class EachEpoch(Numbers):
    def set_epoch(self, epoch: int) -> None:
        pass


class Stream(torch.utils.data.IterableDataset):  # type: ignore[misc]
    def __iter__(self) -> Iterator[Any]:
        return iter(range(100))


def loader(dataset: Any = None, workers: int = 0, **options: Any) -> Any:
    dataset = Numbers() if dataset is None else dataset
    known = {"batch_size": 4, "num_workers": workers}
    known |= {} if isinstance(dataset, Stream) else {"shuffle": True}
    return torch.utils.data.DataLoader(dataset, **(known | options))


def offered(of: Any, base: str = "") -> dict[str, Candidate]:
    offers = LoaderOffers(of, BATCH_BYTES)
    return {one.name: one for one in offers.further(base)}


def opened(of: Any, name: str, start: int = 0) -> Any:
    offers = LoaderOffers(of, BATCH_BYTES)
    offers.counts("", [0, 1, 2, 3])
    offers.further("")
    offers.further("overlap=2")
    variant: Any = offers.open(name, start=start)
    variant.open()
    return variant


# -- what is offered -------------------------------------------------------------------------------


def test_names_are_what_run_is_given_and_build_on_each_other() -> None:
    offers = LoaderOffers(loader(), BATCH_BYTES)
    assert [one.name for one in offers.counts("", [1, 2])] == ["overlap=1", "overlap=2"]
    assert {one.workers for one in offers.counts("", [3])} == {3}
    names = [one.name for one in offers.further("overlap=2")]
    assert "overlap=2,native-threads=1" in names
    assert not any(name.count("overlap") > 1 for name in names)
    both = offers.together(["overlap=2,allocator", "overlap=2,native-threads=1"])
    assert [one.name for one in both] == ["overlap=2,allocator,native-threads=1"]
    own = LoaderOffers(loader(workers=2), BATCH_BYTES)
    assert [one.name for one in own.counts("persistent-workers", [4])] == [
        "workers=4,persistent-workers"
    ]


@pytest.mark.parametrize(
    ("of", "name", "why"),
    [
        (lambda: loader(), "persistent-workers", "no workers"),
        (lambda: loader(EachEpoch(), 2), "persistent-workers", "set_epoch"),
        (lambda: loader(workers=2), "pinned-async", "lives on the host"),
        (lambda: loader(workers=2), "batched-fetch", "no __getitems__"),
        (lambda: loader(Batched(), 2), "batched-fetch", "in use"),
        (lambda: loader(Stream(), 2), "allocator", "iterable"),
        (lambda: loader(workers=1), "unordered", "one order"),
    ],
)
def test_what_can_t_be_tried_is_offered_with_the_reason(of: Any, name: str, why: str) -> None:
    assert why in offered(of())[name].refused


def test_a_class_with_its_own_way_to_iterate_is_left_alone() -> None:
    class Own(torch.utils.data.DataLoader):  # type: ignore[misc]
        def __iter__(self) -> Any:
            return super().__iter__()

    found = offered(Own(Numbers(), batch_size=4, num_workers=2))
    assert all(one.refused for one in found.values())


def test_a_cache_that_would_not_hold_all_is_tried_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "room_for", lambda *_: 10**15)
    (cached,) = [one for name, one in offered(loader()).items() if "cache-ram" in name]
    assert not cached.refused
    assert "do not fit" in cached.unfit


def test_only_a_change_of_order_is_told_as_one() -> None:
    found = offered(loader(workers=2))
    assert found["unordered"].data == REORDERED
    assert found["allocator"].data != REORDERED
    assert found["persistent-workers"].needs_epochs


# -- the loaders -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["overlap=2", "cache-ram=1MB"])
def test_the_script_s_random_numbers_stay_where_they_are(name: str) -> None:
    torch.manual_seed(0)
    random.seed(0)
    of = loader()
    before = states()
    variant = opened(of, name)
    for _ in range(6):
        variant.take()
    variant.begin_epoch(20)
    variant.take()
    variant.close()
    assert states() == before


def test_it_reads_on_from_its_place_and_begins_the_sampler_anew() -> None:
    of = loader(shuffle=False)
    variant = opened(of, "overlap=1", start=98)
    first = [int(variant.take()[1][0]) for _ in range(4)]
    variant.close()
    assert first == [392, 396, 0, 4]


def test_workers_end_with_the_trial_and_kept_ones_outlive_an_epoch() -> None:
    of = loader(workers=2)
    for name, are_kept in (("allocator", False), ("persistent-workers", True)):
        variant = opened(of, name)
        variant.take()
        before = variant.pids
        variant.begin_epoch(10)
        variant.take()
        after = variant.pids
        variant.close()
        assert len(before) == len(after) == 2
        assert (before == after) == are_kept
        assert not any(_is_alive(pid) for pid in (*before, *after))


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_cache_gives_a_few_samples_again_and_again() -> None:
    class Counted(Numbers):
        made = 0

        def __getitem__(self, index: int) -> Any:
            Counted.made += 1
            return super().__getitem__(index)

    variant = opened(loader(Counted()), "cache-ram=1MB")
    seen = [tuple(variant.take()[1].tolist()) for _ in range(12)]
    variant.close()
    assert len(set(seen)) == 4
    assert seen[:4] == seen[4:8]
    assert Counted.made < 12 * 4  # some of the first were made twice


def test_a_cache_that_may_keep_nothing_says_so() -> None:
    variant = opened(loader(Rotated()), "cache-ram=1MB")
    with pytest.raises(Unsuitable, match="random"):
        for _ in range(3):
            variant.take()
    variant.close()


def test_what_the_data_set_raises_is_raised_and_leaves_nothing() -> None:
    variant = opened(loader(Broken()), "overlap=2")
    with pytest.raises(OSError, match="no such file"):
        variant.take()
    variant.close()
    assert variant.pids == []


def test_an_empty_loader_is_no_endless_loop() -> None:
    of = loader(torch.utils.data.Subset(Numbers(), []), shuffle=False)
    variant = opened(of, "overlap=1")
    with pytest.raises(RuntimeError, match="gives nothing"):
        variant.take()
    variant.close()


def test_every_batch_is_another_one_while_nothing_is_cached() -> None:
    variant = opened(loader(workers=2), "allocator")
    seen = [tuple(variant.take()[1].tolist()) for _ in range(20)]
    variant.close()
    assert all(one != other for one, other in itertools.combinations(seen, 2))
