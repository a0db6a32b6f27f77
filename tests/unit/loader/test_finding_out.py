"""Who makes the samples of a stoker.DataLoader: found out on its first batches, and said aloud."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import stoker
from stoker.loader import dataloader
from stoker.loader.gil import Verdict
from tests.unit.loader.samples import Squares, same


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataloader, "_said", set())


class Waiting(Squares):
    """Work that lets go of the GIL, as reading and decoding do."""

    def __getitem__(self, index: int) -> Any:
        time.sleep(0.01)  # far above what a busy machine adds to it
        return super().__getitem__(index)


class Counting(Squares):
    """Work that holds it."""

    def __getitem__(self, index: int) -> Any:
        sum(range(300_000))  # milliseconds, as above
        return super().__getitem__(index)


@pytest.mark.parametrize("size", [8, 1])
@pytest.mark.parametrize(("kind", "word"), [(Waiting, "threads"), (Counting, "processes")])
def test_the_first_batches_decide_and_every_sample_comes_once(
    kind: type[Squares], word: str, size: int
) -> None:
    loader = stoker.DataLoader(kind(40), batch_size=size, num_workers=2)
    loader._verdict = Verdict(cores=2)  # also where the tests own one core
    assert loader.verdict.startswith("not known yet")
    first = list(loader)
    assert same(first, list(torch.utils.data.DataLoader(kind(40), batch_size=size)))
    assert loader.verdict.startswith(word)
    assert same(list(loader), first)


class Noted(Verdict):
    """Never decided, whatever the times are; how many samples each was of is not its business."""

    def __init__(self) -> None:
        super().__init__(cores=2)
        self.pairs = [0, 0]

    def alone(self, seconds_a_sample: float) -> None:
        self.pairs[0] += 1

    def together(self, seconds_a_sample: float) -> None:
        self.pairs[1] += 1


@pytest.mark.parametrize(
    ("size", "count", "pairs"),
    [
        (1, 9, [1, 1]),  # one sample to warm up, four by one thread, four by two
        (1, 8, [1, 0]),  # the last three say nothing
        (3, 15, [1, 1]),  # 3, then 6 and 6
        (8, 32, [2, 1]),
    ],
)
def test_a_time_is_taken_of_four_samples_or_more(size: int, count: int, pairs: list[int]) -> None:
    loader = stoker.DataLoader(Squares(count), batch_size=size, num_workers=2)
    loader._verdict = noted = Noted()
    assert sum(len(labels) for _, labels in loader) == count
    assert noted.pairs == pairs


@pytest.mark.parametrize("bad", range(6))
def test_an_exception_in_a_turn_of_several_batches_comes_in_its_place(bad: int) -> None:
    class Failing(Squares):
        def __getitem__(self, index: int) -> Any:
            if index == bad:
                raise KeyError(index)
            return super().__getitem__(index)

    running = iter(stoker.DataLoader(Failing(), batch_size=1, num_workers=2))
    for index in range(bad):
        assert next(running)[1].item() == index * index
    with pytest.raises(KeyError):
        next(running)
    with pytest.raises(StopIteration):
        next(running)


def test_a_sampler_that_fails_in_a_turn_does_so_after_the_batches_before_it() -> None:
    def order() -> Iterator[list[int]]:
        yield from ([0], [1], [2])
        raise IndexError("a sampler's own mistake")

    class Sampler:
        def __iter__(self) -> Iterator[list[int]]:
            return order()

    running = iter(stoker.DataLoader(Squares(), batch_sampler=Sampler(), num_workers=2))
    assert [next(running)[1].item() for _ in range(3)] == [0, 1, 4]
    with pytest.raises(IndexError, match="own mistake"):
        next(running)


class Decided(Verdict):
    """Decided after the first times, and for threads."""

    def together(self, seconds_a_sample: float) -> None:
        self.stays, self.sentence = True, "threads: as the times say"


def test_the_choice_is_said_aloud_once_for_a_kind_of_data_set(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for _ in range(3):  # as where loaders are made anew each epoch
        loader = stoker.DataLoader(Squares(40), batch_size=8, num_workers=2)
        loader._verdict = Decided(cores=2)
        list(loader)
    assert caplog.messages == ["stoker.DataLoader of Squares: threads: as the times say"]


def test_where_nothing_is_set_up_it_is_seen_on_stderr_and_stdout_is_the_programs_own() -> None:
    script = (
        "import stoker\n"
        "from stoker.loader.gil import Verdict\n"
        "loader = stoker.DataLoader(list(range(99)), batch_size=4, num_workers=2)\n"
        "loader._verdict = Verdict(cores=2)\n"
        "print(sum(len(batch) for batch in loader))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert ended.stdout == "99\n"
    assert ended.stderr.count("stoker.DataLoader of list: ") == 1
