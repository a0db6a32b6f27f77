"""A pass that is closed, fails or is left: what the next one of the same Loader begins with."""

from __future__ import annotations

import math
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker
from stoker.errors import CorruptShardError, InputError, LoaderError
from stoker.loader.processes import augmenters
from stoker.pack import Pack, write_arrays
from tests.unit.loader.test_loader import COUNT, indices, numpy_loader, pictures


@pytest.fixture
def pack(tmp_path: Path) -> Pack:
    return write_arrays(tmp_path / "pack", {"image": pictures()}, shard_samples=40)


def test_a_pass_that_was_closed_has_not_come_to_the_end_of_its_epoch(pack: Pack) -> None:
    loader = numpy_loader(pack, shuffle=True)
    running = iter(loader)
    first = next(running).index.tolist()
    state = loader.state_dict()
    running.close()
    assert list(running) == []
    assert loader.epoch == 0 and loader.state_dict() == state
    assert next(iter(loader)).index.tolist() == first


def test_a_pass_that_failed_has_not_come_to_the_end_of_its_epoch(pack: Pack) -> None:
    loader = numpy_loader(pack, reading="preadv")
    file = pack.path / "shard-00001.image.npy"
    file.write_bytes(file.read_bytes()[:-100])
    running = iter(loader)
    for _ in range(9):
        next(running)
    with pytest.raises(CorruptShardError):
        next(running)
    assert list(running) == []  # as a loop does that goes on after an error
    assert loader.epoch == 0 and loader.state_dict()["position"] == 72


def test_memory_of_the_pass_that_was_closed_last_is_kept(pack: Pack) -> None:
    loader = numpy_loader(pack)
    one, other = iter(loader), iter(loader)
    one.close()
    other.close()
    one.close()
    assert loader._slots is not None


def test_numbers_of_a_few_bits_are_as_good(pack: Pack) -> None:
    loader = numpy_loader(pack, np.int8(8), threads=np.int8(1), crop=np.int16(8))
    assert indices(loader) == list(range(COUNT))
    cut = numpy_loader(pack, crop=stoker.augment.CenterCrop(np.int64(8)))  # type: ignore[arg-type]
    assert next(iter(cut)).image.shape == (8, 8, 8, 3)


def test_a_watchdog_may_wait_for_ever(pack: Pack) -> None:
    slow = threading.Event()

    def augment(batch: Any, **_: int) -> Any:
        slow.wait(0.05)
        return batch

    assert indices(numpy_loader(pack, watchdog_s=math.inf)) == list(range(COUNT))
    assert indices(numpy_loader(pack, 45, watchdog_s=math.inf, augment=augment)) == list(
        range(COUNT)
    )


def test_a_name_that_is_given_twice_is_read_once(pack: Pack) -> None:
    batch = next(iter(numpy_loader(pack, fields=["image", "image"])))
    assert list(batch) == ["image", "index"]


def test_a_field_that_is_called_as_the_samples_numbers_are_is_refused(tmp_path: Path) -> None:
    pack = write_arrays(tmp_path / "p", {"image": pictures(9), "index": np.arange(9) + 5})
    with pytest.raises(InputError, match="a field 'index'") as refused:
        numpy_loader(pack)
    assert "fields=('image',)" in refused.value.run_next
    assert indices(numpy_loader(pack, fields=("image",))) == list(range(9))


def test_a_forked_child_and_its_parent_read_into_memory_of_their_own(pack: Pack) -> None:
    loader = numpy_loader(pack, 45, threads=1)
    list(loader)  # leaves blocks that are used again
    begin, tell = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.read(begin, 1)
            for batch in loader:
                batch.image[:] = 99
            status = 0
        finally:
            os._exit(status)
    running = iter(loader)
    kept = next(running)
    os.write(tell, b"!")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.close(begin)
    os.close(tell)
    assert np.array_equal(kept.image, pictures()[:45])
    assert np.array_equal(next(running).image, pictures()[45:])
    running.close()


def test_worker_processes_are_forked_before_there_are_threads(
    pack: Pack, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside: list[str] = []
    start = augmenters.Pool

    def started(*arguments: Any) -> Any:
        beside.extend(thread.name for thread in threading.enumerate())
        return start(*arguments)

    monkeypatch.setattr(augmenters, "Pool", started)
    assert indices(numpy_loader(pack, 45, augment=same, workers=1)) == list(range(COUNT))
    assert beside and not [name for name in beside if name.startswith("stoker")]


def same(batch: Any, *, seed: int, epoch: int) -> Any:
    return batch


@pytest.mark.parametrize("change", ["gone", "cut"])
def test_a_shard_that_changes_before_it_is_mapped_is_named(pack: Pack, change: str) -> None:
    loader = numpy_loader(pack, reading="mmap")
    file = pack.path / "shard-00001.image.npy"
    if change == "gone":
        file.unlink()
    else:
        os.truncate(file, file.stat().st_size - 10)
    with pytest.raises(
        CorruptShardError, match=r"shard-00001\.image\.npy (is missing|has)"
    ) as told:
        indices(loader)
    assert "stoker verify" in told.value.run_next


def test_a_file_that_is_gone_is_named_in_what_to_do_next(pack: Pack) -> None:
    loader = numpy_loader(pack, reading="preadv")
    (pack.path / "shard-00002.image.npy").unlink()
    with pytest.raises(LoaderError, match="No such file") as told:
        indices(loader)
    assert "shard-00002.image.npy is still there" in told.value.run_next
