"""What the Loader refuses, at once and by name: settings, states, samplers, other processes."""

from __future__ import annotations

import contextlib
import copy
import itertools
import os
import pickle
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import stoker
from stoker.errors import InputError, LoaderError
from stoker.pack import Pack, write_arrays

COUNT = 90


@pytest.fixture
def pack(tmp_path: Path) -> Pack:
    columns = {"image": np.zeros((COUNT, 4, 4, 3), np.uint8), "label": np.arange(COUNT) % 7}
    return write_arrays(tmp_path / "pack", columns)


def numpy_loader(pack: Pack, size: int = 8, **settings: Any) -> stoker.Loader:
    return stoker.Loader(pack, size, array="numpy", **settings)


def indices(loader: stoker.Loader) -> list[int]:
    return [index for batch in loader for index in batch["index"].tolist()]


@pytest.mark.parametrize(
    "change",
    [
        *({"position": value} for value in (-5, COUNT + 1, 10**9, 2.5, "5", None, True)),
        *({"epoch": value} for value in (-1, "a", 1.0, None)),
    ],
    ids=str,
)
def test_a_state_with_values_that_none_has_is_refused_and_nothing_loaded(
    pack: Pack, change: dict[str, Any]
) -> None:
    loader = numpy_loader(pack)
    before = loader.state_dict()
    with pytest.raises(InputError, match=f"cannot have {next(iter(change))}="):
        loader.load_state_dict({**before, "epoch": 3, "position": 8, **change})
    assert loader.state_dict() == before


def test_what_is_no_state_or_half_of_one_is_refused(pack: Pack) -> None:
    loader = numpy_loader(pack)
    with pytest.raises(InputError, match="NoneType is no state"):
        loader.load_state_dict(None)  # type: ignore[arg-type]
    state = loader.state_dict()
    del state["position"]
    with pytest.raises(InputError, match="no position"):
        loader.load_state_dict(state)


def test_the_position_under_a_sampler_is_held_against_its_own_length(pack: Pack) -> None:
    longer = numpy_loader(pack, sampler=[1] * (COUNT + 5))
    longer.load_state_dict({**longer.state_dict(), "position": COUNT + 4})
    assert indices(longer) == [1]
    with pytest.raises(InputError, match="position"):
        longer.load_state_dict({**longer.state_dict(), "position": COUNT + 6})


@pytest.mark.parametrize(
    ("sampler", "named"),
    [
        ([0, 1, 500], "500 as entry 2"),
        ([0, -1], "-1 as entry 1"),
        ([0.5, 1], r"0\.5 as entry 0"),
        ("abc", "'a' as entry 0"),
        ([0, 2**70], f"{2**70} as entry 1"),
    ],
)
def test_an_entry_of_a_sampler_that_is_no_index_is_named(
    pack: Pack, sampler: Any, named: str
) -> None:
    with pytest.raises(InputError, match=rf"gave {named}.*\n.*0 to {COUNT - 1}\n"):
        iter(numpy_loader(pack, sampler=sampler))


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"world_size": COUNT + 1}, f"not one for each of world_size={COUNT + 1} ranks"),
        ({"drop_last": True, "size": COUNT + 1}, f"fewer than batch_size={COUNT + 1} x world_size"),
        ({"drop_last": True, "size": 50, "world_size": 2}, "fewer than batch_size=50 x world_size"),
    ],
)
def test_settings_that_leave_no_batch_are_refused(
    pack: Pack, settings: dict[str, Any], why: str
) -> None:
    with pytest.raises(InputError, match=rf"{COUNT} samples has no batch\n.*{why}"):
        numpy_loader(pack, **settings)


def test_a_sampler_that_leaves_no_batch_is_refused_and_an_empty_one_is_not(pack: Pack) -> None:
    with pytest.raises(InputError, match="3 samples has no batch"):
        iter(numpy_loader(pack, sampler=[1, 2, 3], drop_last=True))
    assert list(numpy_loader(pack, sampler=[], drop_last=True)) == []


def test_a_sampler_of_whole_batches_is_refused_with_the_way_round(pack: Pack) -> None:
    inside = torch.utils.data.RandomSampler(range(COUNT))
    sampler = torch.utils.data.BatchSampler(inside, 8, drop_last=False)
    with pytest.raises(InputError, match=r"as entry 0, which is a whole batch\n.*\n.*\.sampler"):
        iter(numpy_loader(pack, sampler=sampler))


def test_a_sampler_that_names_a_quarantined_sample_is_told_so(
    pack: Pack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pack, "usable", np.delete(np.arange(COUNT), [3, 50]))
    with pytest.raises(InputError, match="gave 3 as entry 3, and that sample is quarantined"):
        iter(numpy_loader(pack, sampler=range(COUNT)))
    assert indices(numpy_loader(pack, sampler=pack.usable)) == pack.usable.tolist()


def test_an_entry_that_is_no_index_comes_in_its_place_where_a_sampler_is_endless(
    pack: Pack,
) -> None:
    class Wrong:
        def __iter__(self) -> Any:
            return itertools.chain(range(10), itertools.repeat(COUNT))

    running = iter(numpy_loader(pack, 4, sampler=Wrong()))
    assert [next(running).index[0] for _ in range(2)] == [0, 4]
    with pytest.raises(InputError, match=f"gave {COUNT} as entry 10"):
        next(running)


def test_a_pack_without_a_usable_sample_is_refused(
    pack: Pack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pack, "usable", np.arange(0))
    with pytest.raises(InputError, match="0 samples has no batch"):
        numpy_loader(pack)


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_loader_that_is_to_be_pickled_says_what_to_do_instead(pack: Pack, duplicate: Any) -> None:
    with pytest.raises(TypeError, match="make the Loader in each process"):
        duplicate(numpy_loader(pack))


def test_numbers_of_numpy_are_as_good_and_the_state_stays_plain(pack: Pack) -> None:
    two, one, zero = np.int64(2), np.int32(1), np.uint8(0)
    loader = numpy_loader(pack, two, shuffle=True, seed=two, rank=zero, world_size=one)
    loader.set_epoch(two)
    plain = numpy_loader(pack, 2, shuffle=True, seed=2)
    plain.set_epoch(2)
    assert next(iter(loader)).index.tolist() == next(iter(plain)).index.tolist()
    assert {type(value) for value in loader.state_dict().values()} == {int, str}


@pytest.mark.parametrize("source", [None, 3, [1, 2]], ids=str)
def test_a_source_that_is_no_path_is_refused(source: Any) -> None:
    with pytest.raises(InputError, match="neither a path nor an open Pack"):
        stoker.Loader(source, 4)


@pytest.mark.parametrize("epoch", [-1, "x", 1.5, None], ids=str)
def test_an_epoch_that_is_none_is_refused(pack: Pack, epoch: Any) -> None:
    with pytest.raises(InputError, match="epoch="):
        numpy_loader(pack).set_epoch(epoch)


@pytest.mark.parametrize("settings", [{}, {"augment": lambda batch, **_: batch}], ids=str)
def test_a_forked_child_is_told_at_once_that_the_threads_stayed_behind(
    pack: Pack, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    running = iter(numpy_loader(pack, **settings))
    next(running)
    parent, held, go_on = os.getpid(), threading.Event(), threading.Event()
    locks = [running._engine._lock]
    if settings:
        locks.append(running._batches._channel._lock)

    def hold() -> None:
        with contextlib.ExitStack() as stack:
            for lock in locks:
                stack.enter_context(lock)
            held.set()
            go_on.wait(5.0)

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(5.0)
    began = time.monotonic()
    with monkeypatch.context() as child:
        child.setattr(os, "getpid", lambda: parent + 1)
        with pytest.raises(LoaderError, match=f"belongs to process {parent}"):
            next(running)
    assert time.monotonic() - began < 4.0  # with the locks held all the while
    go_on.set()
    holder.join()
    running.close()
