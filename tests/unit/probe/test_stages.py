"""What is found on a data set, and that all of it is put back."""

from __future__ import annotations

import builtins
import functools
import io
import os
import pickle
from collections.abc import Callable, Iterator
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import PIL.Image
import PIL.ImageFile
import pytest
import torch
from PIL.Image import open as open_image
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, Subset
from torch.utils.data._utils import fetch as torch_fetch

from stoker.probe import stages
from stoker.probe.hooks import libraries
from stoker.probe.hooks.early import is_user_code
from stoker.probe.stage_reading import read_amplification


def scale(values: list[float]) -> list[float]:
    return [2 * value for value in values]


def helper() -> None:
    """Called by the data set and by its methods."""


class Compose:
    def __init__(self, transforms: list[Any]) -> None:
        self.transforms = transforms

    def __call__(self, value: Any) -> Any:
        for transform in self.transforms:
            value = transform(value)
        return value


class Shift:
    def __call__(self, value: list[float]) -> list[float]:
        return [1 + number for number in value]


class Store:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, index: int) -> bytes:
        helper()
        return (self.folder / f"{index}.bin").read_bytes()


class Samples(Dataset[torch.Tensor]):
    def __init__(self, folder: Path) -> None:
        self.store = Store(folder)
        self.paths = [str(folder / f"{index}.bin") for index in range(1000)]
        self.transform = Compose([Shift(), scale, functools.partial(sorted, reverse=True)])
        self.target = lambda index: index

    def __len__(self) -> int:
        return 8

    @staticmethod
    def parse(data: bytes) -> list[float]:
        return [float(byte) for byte in data]

    @classmethod
    def kind(cls) -> str:
        return cls.__name__

    @property
    def name(self) -> str:
        return "samples"

    def lines(self) -> Iterator[int]:
        yield 1

    def _load(self, index: int) -> list[float]:
        return self.parse(self.store.read(index))

    def __getitem__(self, index: int) -> torch.Tensor:
        helper()
        self.target(index)
        self.kind()
        return torch.tensor(self.transform(self._load(index)))


class Listed(Dataset[int]):
    """Transforms on the class, in a tuple of functions, and in a dictionary."""

    transforms: ClassVar[list[Any]] = [scale, Shift()]

    def __init__(self) -> None:
        self.steps = (sorted, Shift())
        self.by_name = {"last": scale}

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> int:
        values: list[float] = [1.0]
        for transform in (*self.transforms, *self.steps, self.by_name["last"]):
            values = transform(values)
        return index


class Stream(IterableDataset[int]):
    def __init__(self, length: int) -> None:
        self.length = length

    def step(self, number: int) -> int:
        return number * number

    def __iter__(self) -> Iterator[int]:
        helper()
        for number in range(self.length):
            yield self.step(number)


@pytest.fixture
def samples(tmp_path: Path) -> Samples:
    for index in range(8):
        (tmp_path / f"{index}.bin").write_bytes(bytes(range(16)))
    return Samples(tmp_path)


def totals(records: list[dict[str, Any]]) -> dict[str, int]:
    """Calls of each stage over all batches."""
    found: dict[str, int] = {}
    for record in records:
        for stage, (calls, _, _) in record["stages"].items():
            found[stage] = found.get(stage, 0) + calls
    return found


def watched(dataset: Any, **settings: Any) -> list[dict[str, Any]]:
    """The records of one epoch in this process."""
    records: list[dict[str, Any]] = []
    with stages.install(dataset, records.append, where="main"):
        for _ in DataLoader(dataset, **settings):
            pass
    return records


def test_methods_transforms_helpers_and_files_are_stages(samples: Samples) -> None:
    records = watched(samples, batch_size=4)
    assert [record["samples"] for record in records] == [4, 4]
    calls = totals(records)
    each = {
        "Samples.__getitem__",
        "Samples._load",
        "Samples.parse",
        "Samples.kind",
        "Store.read",
        "Compose",
        "Shift",
        "scale",
        "sorted",
        "target",
        "helper",
        "open (file)",
        "read (file)",
    }
    assert {stage for stage, count in calls.items() if count == 8} >= each - {"read (file)"}
    assert calls["read (file)"] >= 8
    assert calls["collate"] == calls["fetch"] == 2
    assert "Samples.name" not in calls
    assert "Samples.lines" not in calls


def test_transforms_are_found_on_classes_in_tuples_and_in_dictionaries() -> None:
    listed = Listed()
    before = (Listed.transforms[0], listed.steps, listed.by_name["last"])
    calls = totals(watched(listed, batch_size=2))
    assert (calls["scale"], calls["Shift"], calls["sorted"]) == (4, 4, 2)
    after = (Listed.transforms[0], listed.steps, listed.by_name["last"])
    assert all(new is old for new, old in zip(after, before, strict=True))


def test_a_sample_record_names_the_file_that_it_came_from(samples: Samples) -> None:
    record = watched(samples, batch_size=4)[1]["records"][0]
    slot, index, wall_ns, cpu_ns, path, size, stage, pixels = record
    assert (slot, index, path, size, pixels) == (4, 4, samples.paths[4], 16, None)
    assert stage in {"open (file)", "read (file)", "Samples.__getitem__", "Store.read"}
    assert cpu_ns > 0
    assert wall_ns > 0


def test_nested_data_sets_are_found_below_their_wrappers(samples: Samples) -> None:
    nested = Subset(ConcatDataset([samples, samples]), [1, 9, 15])
    records = watched(nested, batch_size=3)
    calls = totals(records)
    assert calls["ConcatDataset.__getitem__"] == calls["Samples.__getitem__"] == 3
    assert calls["Shift"] == 3
    assert [row[1] for row in records[0]["records"][:3]] == [1, 9, 15]


@pytest.mark.parametrize("dataset", [[1, 2, 3, 4], np.arange(4)], ids=["list", "array"])
def test_a_data_set_that_cannot_be_patched_is_timed_all_the_same(dataset: Any) -> None:
    records = watched(dataset, batch_size=2)
    assert totals(records)[f"{type(dataset).__name__}.__getitem__"] == 4
    assert [row[1] for row in records[0]["records"][:2]] == [0, 1]


def test_an_iterable_data_set_is_timed_sample_by_sample() -> None:
    records = watched(Stream(6), batch_size=3)
    calls = totals(records)
    # The last batch's end is found by asking once more, in a fetch that gives no batch.
    assert calls["Stream.__iter__"] == 6
    assert calls["Stream.step"] == 6
    assert [record["samples"] for record in records] == [3, 3]


def test_a_loader_of_another_data_set_is_not_timed(samples: Samples) -> None:
    records: list[dict[str, Any]] = []
    with stages.install(samples, records.append, where="main"):
        for _ in DataLoader(Stream(4), batch_size=2):
            pass
    assert records == []


def snapshot(samples: Samples) -> dict[str, Any]:
    owners: list[Any] = [
        *(Samples, Store, Compose, Shift, Subset, ConcatDataset, builtins, io, os),
        *(PIL.Image, PIL.Image.Image, PIL.ImageFile.ImageFile, np, torch_fetch, ForkingPickler),
        *(torch_fetch._MapDatasetFetcher, torch_fetch._IterableDatasetFetcher),
    ]
    state = {f"{owner!r}.{name}": value for owner in owners for name, value in vars(owner).items()}
    state |= {f"global {name}": value for name, value in globals().items()}
    state |= {f"samples.{name}": value for name, value in vars(samples).items()}
    state |= dict(enumerate(samples.transform.transforms))  # type: ignore[arg-type]
    return state


def test_after_restore_every_attribute_is_the_very_object_it_was(samples: Samples) -> None:
    nested = Subset(samples, [0, 1])
    before = snapshot(samples)
    restore = stages.install(nested, lambda _: None, where="worker")
    during = snapshot(samples)
    changed = {name for name in before if during.get(name) is not before[name]}
    assert len(changed) > 30
    assert "global open_image" in changed
    for _ in DataLoader(nested, batch_size=2):
        pass
    restore()
    after = snapshot(samples)
    assert after.keys() == before.keys()
    assert [name for name in before if after[name] is not before[name]] == []


def test_restoring_leaves_alone_what_somebody_else_has_replaced_since(samples: Samples) -> None:
    original = samples.target
    restore = stages.install(samples, lambda _: None, where="main")
    replacement = int
    samples.target = replacement  # type: ignore[assignment]
    restore()
    assert samples.target is replacement
    samples.target = original


def test_a_name_imported_early_is_timed_too(tmp_path: Path) -> None:
    PIL.Image.new("RGB", (8, 8)).save(tmp_path / "0.png")

    class Photos(Dataset[int]):
        def __len__(self) -> int:
            return 1

        def __getitem__(self, index: int) -> int:
            return int(np.asarray(open_image(tmp_path / "0.png")).sum())

    calls = totals(watched(Photos(), batch_size=1))
    assert calls["open (Pillow)"] == 1
    assert calls["decode (Pillow)"] >= 1


def test_a_data_set_can_be_pickled_while_it_is_timed(samples: Samples) -> None:
    samples.target = len  # type: ignore[assignment]
    with stages.install(samples, lambda _: None, where="main"):
        assert samples.target is not len
        copy = pickle.loads(pickle.dumps(samples))
    assert copy.target is len
    assert copy.transform.transforms[1] is scale


def test_a_stage_called_too_often_is_put_back_at_once() -> None:
    original = Shift.__call__

    class Busy(Dataset[int]):
        def __init__(self) -> None:
            self.shift = Shift()

        def __len__(self) -> int:
            return 1

        def __getitem__(self, index: int) -> int:
            for _ in range(1500):
                self.shift([])
            return index

    records: list[dict[str, Any]] = []
    busy = Busy()
    with stages.install(busy, records.append, where="main"):
        assert Shift.__call__ is not original
        next(iter(DataLoader(busy, batch_size=1)))
        assert Shift.__call__ is original
    assert "Shift: called more than 1,000 times" in records[0]["notes"][0]


def test_text_files_keep_encoding_newlines_and_iteration(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_bytes("häuser\r\nbäume\r\n".encode("latin-1"))

    class Words(Dataset[int]):
        def __len__(self) -> int:
            return 1

        def __getitem__(self, index: int) -> int:
            with open(path, encoding="latin-1") as file:  # noqa: PTH123 - the built-in is the point
                assert file.mode == "r"
                assert file.encoding == "latin-1"
                assert list(file) == ["häuser\n", "bäume\n"]
            with open(path, encoding="latin-1", newline="") as file:  # noqa: PTH123
                assert file.readline() == "häuser\r\n"
            with open(path, "rb") as raw:  # noqa: PTH123
                assert isinstance(raw, io.BufferedReader)
                assert raw.name == str(path)
                assert (raw.read(1), raw.tell()) == (b"h", 1)
                assert np.fromfile(raw, np.uint8, count=2).tolist() == [0xE4, ord("u")]
            with open(tmp_path / "out.txt", "w") as out:  # noqa: PTH123
                assert type(out.buffer) is io.BufferedWriter
            with open(path, "rb", buffering=0) as bare:  # noqa: PTH123
                assert type(bare) is io.FileIO
            return index

    calls = totals(watched(Words(), batch_size=1))
    assert calls["open (file)"] == 5
    assert calls["read (file)"] >= 4


def test_a_file_is_read_in_pieces_as_large_as_without_timing(tmp_path: Path) -> None:
    path = tmp_path / "large.bin"
    path.write_bytes(bytes(1_000_000))
    found: list[int] = []

    def read_a_byte() -> int:
        with open(path, "rb") as file:  # noqa: PTH123 - the built-in is the point
            file.read(1)
            return os.lseek(file.fileno(), 0, os.SEEK_CUR)  # a whole buffer is read

    class Bytes(Dataset[int]):
        def __len__(self) -> int:
            return 1

        def __getitem__(self, index: int) -> int:
            found.append(read_a_byte())
            return index

    watched(Bytes(), batch_size=1)
    assert found == [read_a_byte()]


class Rows(Dataset[int]):
    """Rows of 4 kB in a file of a thousand; `read` says how one is taken."""

    def __init__(self, path: Path, read: Callable[[Path, int], Any]) -> None:
        self.path = path
        self.read = read
        path.write_bytes(bytes(1000 * 4096))

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> int:
        return len(self.read(self.path, index))


def mapped(path: Path, index: int) -> Any:
    return np.memmap(path, np.uint8, "r")[4096 * index : 4096 * (index + 1)].copy()


def sought(path: Path, index: int) -> bytes:
    with path.open("rb") as file:
        file.seek(4096 * index)
        return file.read(4096)


def whole(path: Path, index: int) -> bytes:
    return path.read_bytes()[4096 * index : 4096 * (index + 1)]


@pytest.mark.parametrize(
    ("read", "lowest", "highest"),
    [(mapped, 0.0, 1.0), (sought, 1.0, 4.0), (whole, 900.0, 1100.0)],
)
def test_only_bytes_that_are_really_read_are_an_amplification(
    tmp_path: Path, read: Any, lowest: float, highest: float
) -> None:
    found = read_amplification(watched(Rows(tmp_path / "rows", read), batch_size=8), 4096)
    assert found is not None
    assert lowest <= found <= highest


def test_a_file_that_is_not_there_or_a_folder_raises_as_ever(tmp_path: Path) -> None:
    class Missing(Dataset[int]):
        def __len__(self) -> int:
            return 1

        def __getitem__(self, index: int) -> int:
            with pytest.raises(FileNotFoundError, match=r"nothing\.txt"):
                (tmp_path / "nothing.txt").read_text()
            with pytest.raises(IsADirectoryError):
                open(tmp_path)  # noqa: PTH123, SIM115
            with pytest.raises(LookupError, match="unknown encoding"):
                (tmp_path / "some.txt").read_text(encoding="no-such")
            return index

    (tmp_path / "some.txt").write_text("x")
    assert len(watched(Missing(), batch_size=1)) == 1


def test_user_code_is_told_from_libraries() -> None:
    assert is_user_code(__name__)
    for name in ("torch.utils.data", "numpy", "json", "stoker.probe.stages", "builtins", "PIL"):
        assert not is_user_code(name)


def test_every_library_table_names_modules_and_stages() -> None:
    for library in libraries.LIBRARIES:
        assert library.CALLS
        for module, calls in library.CALLS.items():
            assert module
            for name, call in calls.items():
                assert name
                assert call.stage
