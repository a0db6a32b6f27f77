"""A sampler of the user's: honoured entry by entry, however long it is, or refused by name."""

from __future__ import annotations

import itertools
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from stoker.errors import InputError, LoaderError
from stoker.loader.faces import PackDataset
from stoker.pack import Pack, write_arrays
from tests.unit.loader.test_loader import COUNT, indices, numpy_loader, pictures


@pytest.fixture
def pack(tmp_path: Path) -> Pack:
    return write_arrays(tmp_path / "pack", {"image": pictures()}, shard_samples=40)


def test_a_torch_sampler_is_honoured_and_told_the_epoch(pack: Pack) -> None:
    class Counting:
        def __len__(self) -> int:
            return 20

        def __iter__(self) -> Any:
            return iter(torch.utils.data.SequentialSampler(range(20)))

        def set_epoch(self, epoch: int) -> None:
            self.epoch = epoch

    sampler = Counting()
    loader = numpy_loader(pack, sampler=sampler)
    loader.set_epoch(4)
    assert indices(loader) == list(range(20)) and len(loader) == 3
    assert sampler.epoch == 4
    ranks = torch.utils.data.DistributedSampler(range(COUNT), num_replicas=2, rank=1, shuffle=False)
    assert indices(numpy_loader(pack, sampler=ranks)) == list(range(1, COUNT, 2))


def test_a_sampler_is_resumed_by_leaving_out_what_was_given(pack: Pack) -> None:
    loader = numpy_loader(pack, sampler=range(30, 60))
    running = iter(loader)
    assert next(running).index.tolist() == list(range(30, 38))
    state = loader.state_dict()
    running.close()
    again = numpy_loader(pack, sampler=range(30, 60))
    again.load_state_dict(state)
    assert indices(again) == list(range(38, 60))


class Endless:
    """A sampler as detection has them: it never ends, and may not know a length."""

    def __iter__(self) -> Any:
        return itertools.cycle(range(10))


class EndlessWithLength(Endless):
    def __len__(self) -> int:
        return 30


@pytest.mark.parametrize("kind", [Endless, EndlessWithLength])
def test_a_sampler_that_never_ends_is_taken_batch_by_batch(pack: Pack, kind: Any) -> None:
    loader = numpy_loader(pack, 4, sampler=kind())
    running = iter(loader)
    taken = [next(running).index.tolist() for _ in range(10)]  # more than a length, where told
    assert list(itertools.chain(*taken)) == [number % 10 for number in range(40)]
    state = loader.state_dict()
    assert state["position"] == 40
    running.close()
    again = numpy_loader(pack, 4, sampler=kind())
    again.load_state_dict(state)
    assert next(iter(again)).index.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("drop_last", [False, True])
def test_a_sampler_without_a_length_ends_where_it_ends(pack: Pack, drop_last: bool) -> None:
    class Some:
        def __init__(self, count: int) -> None:
            self.count = count

        def __iter__(self) -> Any:
            return iter(range(self.count))

    loader = numpy_loader(pack, 4, sampler=Some(10), drop_last=drop_last)
    assert indices(loader) == list(range(8 if drop_last else 10))
    assert loader.epoch == 1 and loader.state_dict()["position"] == 0
    assert indices(numpy_loader(pack, 4, sampler=Some(0), drop_last=drop_last)) == []
    if drop_last:
        with pytest.raises(InputError, match="an epoch of 3 samples has no batch"):
            list(numpy_loader(pack, 4, sampler=Some(3), drop_last=True))


def test_a_sampler_over_the_packs_data_set_counts_in_its_numbers(
    pack: Pack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pack, "usable", np.delete(np.arange(COUNT), [3, 50]))
    data = PackDataset(pack)
    for sampler in (
        torch.utils.data.SequentialSampler(data),
        torch.utils.data.RandomSampler(data),
        torch.utils.data.DistributedSampler(data, num_replicas=1, rank=0),
    ):
        assert sorted(indices(numpy_loader(pack, sampler=sampler))) == pack.usable.tolist()
    for number in (2, 3, len(data) - 1):
        sampler = torch.utils.data.SequentialSampler(data)
        batches = list(numpy_loader(pack, 1, sampler=sampler))
        assert np.array_equal(batches[number].image[0], data[number][0])


def test_an_iterator_is_not_taken_for_an_empty_epoch_when_it_has_come_to_its_end(
    pack: Pack,
) -> None:
    loader = numpy_loader(pack, 4, sampler=iter(range(12)))
    assert indices(loader) == list(range(12))
    with pytest.raises(InputError, match="none any more") as refused:
        indices(loader)
    assert "begin anew" in refused.value.run_next


def test_a_sampler_without_a_length_that_hangs_does_not_hold_iter_and_is_named(pack: Pack) -> None:
    go_on = threading.Event()

    def hanging() -> Any:
        go_on.wait(20.0)  # longer than the watchdog's time
        yield 0

    loader = numpy_loader(pack, 4, sampler=hanging(), watchdog_s=0.2)
    began = time.monotonic()
    running = iter(loader)
    assert time.monotonic() - began < 5.0
    with pytest.raises(LoaderError, match="stage 'sampler' has taken") as stuck:
        next(running)
    assert "go_on.wait" in stuck.value.looked_at
    go_on.set()
    running.close()


def test_what_a_sampler_without_a_length_does_first_is_done_in_the_callers_thread(
    pack: Pack,
) -> None:
    class Seeded:
        def __iter__(self) -> Any:
            self.begun_in = threading.current_thread()
            return iter(range(5))

    sampler = Seeded()
    running = iter(numpy_loader(pack, 4, sampler=sampler))
    assert sampler.begun_in is threading.current_thread()
    assert [batch.index.tolist() for batch in running] == [[0, 1, 2, 3], [4]]


class NoLength:
    def __iter__(self) -> Any:
        return iter(range(10))


def test_what_was_given_is_counted_to_the_end_of_a_sampler_without_a_length(pack: Pack) -> None:
    loader = numpy_loader(pack, 4, sampler=NoLength())
    assert indices(loader) == list(range(10))
    assert loader.stats().samples == 10


class WithLength(NoLength):
    """That may go on beyond it, for all one knows before."""

    def __len__(self) -> int:
        return 10


@pytest.mark.parametrize("sampler", [NoLength(), WithLength()])
def test_a_state_at_the_end_of_a_sampler_is_followed_by_the_next_epoch(
    pack: Pack, sampler: Any
) -> None:
    loader = numpy_loader(pack, 4, sampler=sampler)
    running = iter(loader)
    taken = [next(running).index.tolist() for _ in range(3)]  # and is not asked for the end
    assert taken[2] == [8, 9]
    state = loader.state_dict()
    assert state["position"] == 10
    running.close()
    again = numpy_loader(pack, 4, sampler=sampler)
    again.load_state_dict(state)
    assert indices(again) == []
    assert again.epoch == 1 and indices(again) == list(range(10))


@pytest.mark.parametrize("sampler", [NoLength(), WithLength()])
def test_a_state_beyond_the_end_of_a_sampler_is_refused(pack: Pack, sampler: Any) -> None:
    loader = numpy_loader(pack, 4, sampler=sampler)
    loader.load_state_dict(loader.state_dict() | {"position": 12})
    with pytest.raises(InputError, match=r"position=12: the sampler gives 10 entries") as refused:
        indices(loader)
    assert "without it" in refused.value.run_next
    assert indices(loader) == list(range(10)), "which is the epoch, begun anew"


def test_a_sampler_over_another_packs_data_set_is_refused(pack: Pack, tmp_path: Path) -> None:
    other = write_arrays(tmp_path / "other", {"image": pictures()[:20]})
    sampler = torch.utils.data.SequentialSampler(PackDataset(other))
    with pytest.raises(InputError, match="a PackDataset of other samples"):
        indices(numpy_loader(pack, sampler=sampler))


def test_a_loader_beside_takes_no_entries_of_a_sampler_that_is_gone_through_once(
    pack: Pack,
) -> None:
    loader = numpy_loader(pack, 4, sampler=iter(range(12)))
    with pytest.raises(TypeError, match="gone through once"):
        loader._beside()
    assert indices(loader) == list(range(12))
