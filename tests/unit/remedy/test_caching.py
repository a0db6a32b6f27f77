"""Samples and files that are kept: exactly as they were, within the budget, and not the random."""

from __future__ import annotations

import builtins
import multiprocessing
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stoker.remedy.cache_local import LocalCopies
from stoker.remedy.cache_ram import RamCache
from stoker.remedy.sample_bytes import NotStorable, pack, unpack
from stoker.remedy.shared_store import SharedStore

torch = pytest.importorskip("torch")


def back(sample: Any) -> Any:
    return unpack(memoryview(pack(sample)))


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(24, dtype=torch.uint8).reshape(2, 3, 4),
        torch.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1),
        torch.tensor(float("nan")),
        torch.zeros(0, 3),
        torch.arange(6, dtype=torch.bfloat16).reshape(2, 3).t(),
        torch.tensor([True, False]),
        torch.arange(12).reshape(3, 4)[:, 1:3],
    ],
)
def test_a_tensor_comes_back_with_its_bytes_type_and_shape(tensor: Any) -> None:
    given = back(tensor)
    assert (given.dtype, given.shape) == (tensor.dtype, tensor.shape)
    assert given.contiguous().view(-1).tolist() == pytest.approx(
        tensor.contiguous().view(-1).tolist(), nan_ok=True
    )


def test_a_permuted_picture_keeps_its_strides() -> None:
    picture = torch.zeros(5, 7, 3).permute(2, 0, 1)
    assert back(picture).stride() == picture.stride()


def test_what_comes_back_may_be_written_to_and_is_nobody_elses() -> None:
    blob = memoryview(pack({"image": torch.zeros(3), "label": np.zeros(2)}))
    first, second = unpack(blob), unpack(blob)
    first["image"] += 1
    first["label"] += 1
    assert second["image"].tolist() == [0, 0, 0]
    assert second["label"].tolist() == [0, 0]


@pytest.mark.parametrize(
    "sample",
    [torch.zeros(2, requires_grad=True), torch.nn.Parameter(torch.zeros(2)), lambda: None],
)
def test_what_would_come_back_as_something_else_is_refused(sample: Any) -> None:
    with pytest.raises(NotStorable):
        pack(sample)


def test_a_full_store_takes_no_more_and_keeps_what_it_has() -> None:
    store = SharedStore(slots=4, budget=10)
    assert store.put(0, b"12345678")
    assert not store.put(1, b"12345678")
    kept = store.get(0)
    assert kept is not None
    assert bytes(kept) == b"12345678"
    assert store.get(1) is None


def fill(store: SharedStore, first: int) -> None:
    for number in range(first, 200, 2):
        store.put(number, bytes([number]) * 100)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_several_processes_fill_one_store_without_a_mix_up(method: Any) -> None:
    store = SharedStore(slots=200, budget=200 * 100)
    context = multiprocessing.get_context(method)
    processes = [context.Process(target=fill, args=(store, first)) for first in (0, 1)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    blobs = [store.get(number) for number in range(200)]
    assert [bytes(blob) for blob in blobs if blob is not None] == [
        bytes([number]) * 100 for number in range(200)
    ]
    assert store.used == 200 * 100


class Counted:
    """Samples that say how often they were made."""

    def __init__(self) -> None:
        self.made = 0

    def __len__(self) -> int:
        return 5

    def __getitem__(self, index: int) -> Any:
        self.made += 1
        return torch.full((2,), float(index)), index


def test_a_sample_is_made_once_beside_the_check_and_given_ever_after() -> None:
    dataset = Counted()
    cached = RamCache(5, 10_000).around(dataset)
    for _ in range(3):
        assert [cached[index][1] for index in range(5)] == list(range(5))
    assert dataset.made == 2 * 5
    assert len(cached) == 5
    assert cached.made == 2 * 5  # all else is the data set's


def test_a_data_set_that_gives_whole_batches_is_asked_for_the_missing_alone() -> None:
    class Batched(Counted):
        def __getitems__(self, indices: list[int]) -> list[Any]:
            return [self[index] for index in indices]

    dataset = Batched()
    cached = RamCache(5, 10_000).around(dataset)
    cached.__getitems__([0, 1])
    assert [label for _, label in cached.__getitems__([3, 0, 1, 2])] == [3, 0, 1, 2]
    assert dataset.made == 2 * 4


@pytest.mark.parametrize(
    "draw",
    [random.random, np.random.rand, lambda: torch.rand(())],
    ids=["python", "numpy", "torch"],
)
def test_a_sample_that_draws_random_numbers_ends_the_caching_and_says_so(draw: Any) -> None:
    class Random(Counted):
        def __getitem__(self, index: int) -> Any:
            if index == 3:
                draw()
            return super().__getitem__(index)

    dataset = Random()
    cache = RamCache(5, 10_000)
    cached = cache.around(dataset)
    for index in (0, 3, 0):
        cached[index]
    assert dataset.made == 2 + 1 + 1
    assert "draws random numbers" in (cache.problem() or "")


def test_a_changed_data_set_is_asked_again() -> None:
    dataset = Counted()
    cache = RamCache(5, 10_000)
    cached = cache.around(dataset)
    cached[0]
    cache.renew()
    cached[0]
    assert dataset.made == 2 * 2


@pytest.mark.parametrize("is_batched", [False, True])
def test_a_sample_made_twice_that_differs_ends_the_caching(is_batched: bool) -> None:
    class Fresh(Counted):
        def __getitem__(self, index: int) -> Any:
            return np.random.default_rng().random()

    class Batched(Fresh):
        def __getitems__(self, indices: list[int]) -> list[Any]:
            return [self[index] for index in indices]

    cache = RamCache(5, 10_000)
    cached = cache.around(Batched() if is_batched else Fresh())
    draws = [cached.__getitems__([1])[0] if is_batched else cached[1] for _ in range(5)]
    assert len(set(draws)) == 5
    assert "made twice" in (cache.problem() or "")


def test_few_samples_are_made_twice_once_a_process_is_warm() -> None:
    dataset = Counted()
    cached = RamCache(1000, 1_000_000).around(dataset)
    for index in range(1000):
        cached[index]
    assert 1008 <= dataset.made < 1040


class Files:
    """The text of numbered files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __getitem__(self, index: int) -> str:
        return (self.folder / f"{index}.txt").read_text()


def test_a_file_is_copied_once_and_then_read_from_the_copy(tmp_path: Path) -> None:
    source, copies = tmp_path / "source", tmp_path / "copies"
    source.mkdir()
    (source / "0.txt").write_text("first")
    own_open = builtins.open
    layer = LocalCopies(str(copies), 1000)
    reading = layer.around(Files(source))
    assert reading[0] == "first"
    (copy,) = copies.glob("*/*.txt")
    copy.write_text("from the copy")
    assert reading[0] == "from the copy"
    assert builtins.open is own_open
    # Another run finds the copy; a source that has changed gets a copy of its own.
    assert LocalCopies(str(copies), 1000).around(Files(source))[0] == "from the copy"
    (source / "0.txt").write_text("second, and longer")
    assert LocalCopies(str(copies), 1000).around(Files(source))[0] == "second, and longer"


def test_a_full_folder_leaves_files_where_they_are(tmp_path: Path) -> None:
    source, copies = tmp_path / "source", tmp_path / "copies"
    source.mkdir()
    for index in range(3):
        (source / f"{index}.txt").write_text("x" * 40)
    reading = LocalCopies(str(copies), 100).around(Files(source))
    assert [len(reading[index]) for index in range(3)] == [40, 40, 40]
    assert len(list(copies.glob("*/*.txt"))) == 2


def test_a_missing_file_raises_what_the_script_would_see(tmp_path: Path) -> None:
    reading = LocalCopies(str(tmp_path / "copies"), 100).around(Files(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"0\.txt"):
        reading[0]
