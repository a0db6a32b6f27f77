"""Worker processes that write into shared memory: torch's batches, and nothing left behind."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import stoker
from stoker.errors import LoaderError
from tests.unit.loader.samples import PATIENCE_S, Alike, children


class Drawing(Alike):
    """Samples with all three of the global generators in them."""

    def __getitem__(self, index: int) -> Any:
        return index, torch.rand(3), np.random.rand(2), random.random()


class Asking(Alike):
    """Samples that depend on who makes them."""

    def __getitem__(self, index: int) -> Any:
        told = torch.utils.data.get_worker_info()
        assert told is not None and told.num_workers == 2 and isinstance(told.dataset, Asking)
        return index, told.id, told.seed


class Odd(Alike):
    """Texts, and sizes that differ from some sample on."""

    def __getitem__(self, index: int) -> Any:
        return {"name": f"sample {index}", "raw": b"x" * index, "value": 1.5 * index}


class Together(Alike):
    """Makes all samples of a batch at once."""

    def __getitems__(self, indices: list[int]) -> Any:
        return [(index, sum(indices)) for index in indices]


class LateTexts(Alike):
    """Alike at first, then a number of another kind in the same place."""

    def __getitem__(self, index: int) -> Any:
        return index if index < 30 else float(index)


def ragged(samples: list[Any]) -> Any:
    """Lists of tensors of any size, as detection has them, and a view that is not contiguous."""
    numbers = [int(sample["scalar"]) for sample in samples]
    boxes = [torch.full((1 + number % 3, 4), float(number)) for number in numbers]
    images = torch.stack([sample["image"] for sample in samples])
    return {"boxes": boxes, "images": images.permute(0, 3, 1, 2), "name": str(numbers)}


def seeded(number: int) -> None:
    """A worker_init_fn as torch's documents have it."""
    np.random.seed(torch.initial_seed() % 2**32 + number)


def flat(value: Any) -> Any:
    """Comparable, with types, dtypes and strides."""
    if isinstance(value, torch.Tensor):
        return value.dtype, tuple(value.shape), value.stride(), value.flatten().tolist()
    if isinstance(value, dict):
        return type(value), [(key, flat(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [flat(item) for item in value]
    return type(value), value


def both(dataset: Any, **settings: Any) -> tuple[Any, Any, Any]:
    """What torch's loader and ours give over two epochs and draw meanwhile; and ours."""
    given = []
    settings = {"batch_size": 3, "num_workers": 2, **settings}
    for make in (torch.utils.data.DataLoader, stoker.DataLoader):
        torch.manual_seed(7)
        ours = {"mode": "processes"} if make is stoker.DataLoader else {}
        loader = make(dataset, **settings, **ours)
        epochs = []
        for _ in range(2):
            batches = iter(loader)
            epochs.append((torch.rand(1).item(), [flat(batch) for batch in batches]))
        given.append(epochs)
    return given[0], given[1], loader


@pytest.mark.parametrize(
    ("dataset", "settings", "way"),
    [
        (Alike(), {"shuffle": True}, "samples"),
        (Alike(), {"shuffle": True, "persistent_workers": True, "drop_last": True}, "samples"),
        (Alike(), {"generator": "own", "sampler": "random"}, "samples"),
        (Alike(), {"collate_fn": ragged, "shuffle": True}, "whole batches go to whichever"),
        (Drawing(), {"shuffle": True}, "whole batches, as torch"),
        (Drawing(), {"shuffle": True, "persistent_workers": True}, "whole batches, as torch"),
        (Drawing(), {"worker_init_fn": seeded}, "whole batches, as torch"),
        (Asking(), {}, "whole batches, as torch"),
        (Odd(), {}, "whole batches go to whichever"),
        (Together(), {}, "whole batches go to whichever"),
        (LateTexts(), {"batch_size": 5}, "whole batches go to whichever"),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "count") else str(value)[:24],
)
def test_the_batches_are_those_of_torchs_workers(
    dataset: Any, settings: dict[str, Any], way: str
) -> None:
    if "generator" in settings:
        torchs, ours = [], []
        for found, make in ((torchs, torch.utils.data.DataLoader), (ours, stoker.DataLoader)):
            own = torch.Generator().manual_seed(3)
            sampler = torch.utils.data.RandomSampler(dataset, generator=own)
            extra = {"mode": "processes"} if make is stoker.DataLoader else {}
            loader = make(
                dataset, batch_size=3, sampler=sampler, generator=own, num_workers=2, **extra
            )
            found += [flat(batch) for batch in loader]
    else:
        torchs, ours, loader = both(dataset, **settings)
    assert ours == torchs
    assert way in loader.verdict
    del loader


def test_the_batches_are_those_of_torchs_workers_when_spawned() -> None:
    """Both ways of starting; a module that a child can import holds the data set."""
    made = []
    for make, extra in (
        (torch.utils.data.DataLoader, {}),
        (stoker.DataLoader, {"mode": "processes"}),
    ):
        data = torch.utils.data.TensorDataset(torch.arange(12.0))
        torch.manual_seed(1)
        loader = make(
            data, 2, shuffle=True, num_workers=1, multiprocessing_context="spawn", **extra
        )
        made.append([flat(batch) for batch in loader])
    assert made[0] == made[1]


class OneIsSlow(Alike):
    """Sample 20 waits, when it is told to, until all the others are made."""

    def __init__(self, folder: Path) -> None:
        super().__init__(40)
        self.folder = folder

    def __getitem__(self, index: int) -> Any:
        if index == 20 and (self.folder / "wait").exists():
            end = time.monotonic() + PATIENCE_S
            while len(list(self.folder.iterdir())) < 40 and time.monotonic() < end:
                time.sleep(0.005)
        (self.folder / str(index)).touch()
        return torch.tensor(index), os.getpid(), len(list(self.folder.iterdir()))


def test_one_slow_sample_holds_no_other_of_its_batch_nor_of_later_ones(tmp_path: Path) -> None:
    """After the first pass, which shows that any worker may make any sample."""
    loader = stoker.DataLoader(
        OneIsSlow(tmp_path), 4, num_workers=2, prefetch_factor=4, mode="processes"
    )
    list(loader)
    for made in tmp_path.iterdir():
        made.unlink()
    (tmp_path / "wait").touch()
    batches = list(loader)
    assert torch.cat([batch[0] for batch in batches]).tolist() == list(range(40))
    indices, makers, made_before = batches[5]
    assert indices[0] == 20 and made_before[0] >= 41  # all others, those of its own batch too
    assert makers[0] != makers[1] == makers[2] == makers[3]


def test_batches_that_are_kept_stay_as_they_were_and_memory_is_used_again() -> None:
    loader = stoker.DataLoader(Alike(120), 2, num_workers=2, mode="processes")
    kept = list(loader)
    for number, batch in enumerate(kept):
        assert batch["scalar"].tolist() == [2 * number, 2 * number + 1]
        assert batch["image"][:, 0, 0, 0].tolist() == [2 * number, 2 * number + 1]
    running = iter(loader)
    places = {next(running)["image"].data_ptr() for _ in range(60)}
    assert len(places) < 20
    del running


class Failing(Alike):
    """Raises what can be pickled, and what can't."""

    def __init__(self, error: Callable[[], BaseException]) -> None:
        super().__init__(40)
        self.error = error

    def __getitem__(self, index: int) -> Any:
        if index == 31:
            raise self.error()
        return index


class UnpicklableError(Exception):
    """Needs more to be made than it tells."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (lambda: KeyError("lost"), KeyError, "lost"),
        (lambda: UnpicklableError(1, 2), LoaderError, "UnpicklableError: 1 and 2"),
        (StopIteration, LoaderError, "StopIteration"),
    ],
    ids=["own type", "cannot be pickled", "StopIteration"],
)
def test_an_exception_comes_in_its_place_with_sample_and_the_workers_traceback(
    error: Any, kind: type[Exception], text: str
) -> None:
    running = iter(stoker.DataLoader(Failing(error), 5, num_workers=2, mode="processes"))
    assert [len(next(running)) for _ in range(6)] == [5] * 6
    with pytest.raises(kind, match=text) as raised:
        next(running)
    notes = "\n".join(raised.value.__notes__)
    assert "stage 'dataset', sample 31" in notes
    assert "in __getitem__" in notes and "raise self.error()" in notes
    with pytest.raises(StopIteration):
        next(running)


def broken(number: int) -> None:
    raise OSError(f"no device for worker {number}")


def colliding(samples: list[Any]) -> Any:
    raise ValueError(f"no batch of {len(samples)}")


def test_a_failing_start_and_a_failing_collate_are_raised_in_the_loop() -> None:
    loader = stoker.DataLoader(Alike(), 5, num_workers=1, worker_init_fn=broken)
    with pytest.raises(OSError, match="no device for worker 0") as raised:
        next(iter(loader))
    notes = "\n".join(raised.value.__notes__)
    assert "stage 'worker_init_fn'\n" in notes and "in worker process 0 (pid " in notes
    loader = stoker.DataLoader(
        *(Alike(), 5),
        num_workers=1,
        collate_fn=colliding,
        mode="processes",
        persistent_workers=True,
    )
    for _ in range(2):
        with pytest.raises(ValueError, match="no batch of 5") as raised_too:
            next(iter(loader))
        assert "stage 'collate'" in raised_too.value.__notes__[0]


class Batched:
    """Pinned memory where there is none: what the pinning thread is given comes back marked."""

    def __init__(self, samples: list[Any]) -> None:
        self.numbers = torch.tensor(samples)
        self.is_pinned = False

    def pin_memory(self) -> Batched:
        self.is_pinned = True
        return self


def test_batches_are_pinned_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    from stoker.loader.processes import iterators

    loader = stoker.DataLoader(
        range(40),  # type: ignore[arg-type]
        5,
        num_workers=2,
        collate_fn=Batched,
        mode="processes",
        persistent_workers=True,
    )
    begin = iterators.Processes._begin

    def pinning(self: Any, loader: Any) -> None:
        self._pin_memory = True
        begin(self, loader)

    monkeypatch.setattr(iterators.Processes, "_begin", pinning)
    for _ in range(2):
        batches = list(loader)
        assert all(batch.is_pinned for batch in batches)
        assert torch.cat([b.numbers for b in batches]).tolist() == list(range(40))
    del loader


@pytest.fixture(autouse=True)
def no_process_left() -> Iterator[None]:
    before = children()
    yield
    assert children() == before
