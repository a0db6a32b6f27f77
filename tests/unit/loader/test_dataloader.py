"""stoker.DataLoader: what torch's gives, by threads or by processes, as it is found to be best."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import stoker
from stoker.errors import InputError, LoaderError
from stoker.loader import dataloader
from stoker.loader.gil import Verdict
from tests.unit.loader.samples import Squares, same

PATIENCE_S = 5.0


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"batch_size": 6},
        {"batch_size": 6, "drop_last": True},
        {"batch_size": 6, "shuffle": True},
        {"batch_size": 6, "sampler": [4, 2, 9]},
        {"batch_sampler": [[1, 2, 3], [4], [5, 6]]},
        {"batch_size": 4, "num_workers": 2},
    ],
    ids=str,
)
def test_the_batches_are_those_of_torchs_loader(settings: dict[str, Any]) -> None:
    data = Squares()
    torch.manual_seed(5)
    plain = list(torch.utils.data.DataLoader(data, **{**settings, "num_workers": 0}))
    torch.manual_seed(5)
    loader = stoker.DataLoader(data, mode="threads", **settings)
    assert same(list(loader), plain) and len(loader) == len(plain)
    assert isinstance(loader, torch.utils.data.DataLoader)


def test_samples_are_made_in_the_background_by_as_many_threads_as_workers() -> None:
    data = Squares(40)
    barrier = threading.Barrier(2, timeout=PATIENCE_S)

    class Together(Squares):
        def __getitem__(self, index: int) -> Any:
            if index < 2:
                barrier.wait()  # passes only when two threads are at work
            return data[index]

    batches = list(stoker.DataLoader(Together(40), batch_size=8, num_workers=2, mode="threads"))
    assert len(batches) == 5
    assert all(name.startswith("stoker-loader") for name in data.makers)


def test_a_slow_sample_does_not_hold_the_other_threads() -> None:
    go_on, made = threading.Event(), threading.Semaphore(0)

    class OneIsSlow(Squares):
        def __getitem__(self, index: int) -> Any:
            if index == 0:
                assert go_on.wait(PATIENCE_S)
            made.release()
            return super().__getitem__(index)

    running = iter(stoker.DataLoader(OneIsSlow(), batch_size=5, num_workers=2, mode="threads"))
    for _ in range(19):  # all of four batches but that one sample
        assert made.acquire(timeout=PATIENCE_S)
    go_on.set()
    assert next(running)[1].tolist() == [0, 1, 4, 9, 16]
    assert len(list(running)) == 3


def test_an_exception_keeps_its_type_and_names_the_sample() -> None:
    class Failing(Squares):
        def __getitem__(self, index: int) -> Any:
            if index == 7:
                raise KeyError("seven")
            return super().__getitem__(index)

    running = iter(stoker.DataLoader(Failing(), batch_size=5, num_workers=2, mode="threads"))
    assert next(running)[1].tolist() == [0, 1, 4, 9, 16]
    with pytest.raises(KeyError, match="seven") as raised:
        next(running)
    assert "stage 'dataset', sample 7" in raised.value.__notes__


@pytest.mark.parametrize(
    ("key", "named"),
    [(np.int64(7), "sample 7"), ("b", "(key 'b')"), (torch.tensor(7), "(key tensor(7))")],
    ids=str,
)
@pytest.mark.parametrize("where", ["dataset", "collate"])
def test_a_failure_names_the_samplers_key_and_not_its_place(
    where: str, key: Any, named: str
) -> None:
    class Failing:
        def __getitem__(self, asked: Any) -> int:
            if where == "dataset" and asked == key:
                raise KeyError("seven")
            return 1

    def collate(items: list[int]) -> list[int]:
        if where == "collate" and len(items) == 1:
            raise KeyError("one")
        return items

    batches = [[3, 4], [5, 6], [key]]
    loader = stoker.DataLoader(
        Failing(), batch_sampler=batches, collate_fn=collate, num_workers=2, mode="threads"
    )
    running = iter(loader)
    assert [next(running) for _ in range(2)] == [[1, 1], [1, 1]]
    with pytest.raises(KeyError) as raised:
        next(running)
    (note,) = raised.value.__notes__
    assert note.startswith(f"stage '{where}'") and note.endswith(named)


@pytest.mark.parametrize("mode", ["threads", "auto"])
def test_a_batch_of_no_samples_is_what_the_collate_function_makes_of_it(mode: Any) -> None:
    batches = [[], [1], [], (number for number in (2, 3)), []]
    loader = stoker.DataLoader(
        Squares(), batch_sampler=batches, collate_fn=len, num_workers=2, mode=mode
    )
    if mode == "auto":
        loader._verdict = Decided("threads")
    assert list(loader) == [0, 1, 0, 2, 0]


def test_a_failing_collate_is_raised_in_its_place() -> None:
    def collate(items: list[Any]) -> Any:
        if items[0][1] == 25:
            raise ArithmeticError("no batch")
        return items

    running = iter(stoker.DataLoader(Squares(), batch_size=5, collate_fn=collate, mode="threads"))
    assert len(next(running)) == 5
    with pytest.raises(ArithmeticError, match="no batch"):
        next(running)


def spent(*_: Any) -> Any:
    """Ends with StopIteration, as a `next()` does that somebody forgot to guard."""
    return next(iter(()))


@pytest.mark.parametrize("where", ["dataset", "collate"])
def test_a_stop_iteration_from_inside_is_an_error_and_no_end(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if where == "dataset":
        monkeypatch.setattr(Squares, "__getitem__", spent)
    collate = spent if where == "collate" else None
    loader = stoker.DataLoader(Squares(), batch_size=5, collate_fn=collate, mode="threads")
    with pytest.raises(LoaderError, match=f"stage '{where}', sample 0 failed: StopIteration"):
        next(iter(loader))


def test_a_sample_that_hangs_is_named() -> None:
    release = threading.Event()

    class Hanging(Squares):
        def __getitem__(self, index: int) -> Any:
            release.wait(PATIENCE_S)
            return super().__getitem__(index)

    loader = stoker.DataLoader(Hanging(), batch_size=5, num_workers=1, timeout=0.05, mode="threads")
    running = iter(loader)
    with pytest.raises(LoaderError, match="sample 0 has taken"):
        next(running)
    release.set()


def test_two_threads_that_help_are_kept_and_two_that_do_not_are_not() -> None:
    for gain, stays in ((1.9, True), (1.1, False)):
        verdict = Verdict(cores=2)
        assert verdict.stays is None
        verdict.alone(0.010)
        verdict.together(0.010 / gain)
        assert verdict.stays is stays
        assert f"{gain:.2f} times" in verdict.sentence
        assert ("or the cores are busy" in verdict.sentence) is not stays
    assert Verdict(cores=1).stays is True


def test_a_pair_of_times_that_another_program_may_have_bent_is_taken_again() -> None:
    verdict = Verdict(cores=2)
    for alone_s, together_s in ((0.0145, 0.010), (0.0101, 0.0099)):  # 1.45, then 1.02 times
        assert verdict.stays is None and not verdict.sentence
        verdict.alone(alone_s)
        verdict.together(together_s)
    assert verdict.stays is False and "1.02 times" in verdict.sentence


def test_three_pairs_that_are_not_clear_decide_by_their_smallest_times() -> None:
    verdict = Verdict(cores=2)
    for alone_s in (0.0148, 0.0140, 0.0142):
        assert verdict.stays is None
        verdict.alone(alone_s)
        verdict.together(0.010)
    assert verdict.stays is True and "1.40 times" in verdict.sentence


@pytest.mark.parametrize("workers", [0, 1])
def test_with_fewer_than_two_workers_the_verdict_is_one_thread(workers: int) -> None:
    loader = stoker.DataLoader(Squares(), batch_size=5, num_workers=workers)
    list(loader)
    assert loader.verdict.startswith(f"threads: one, as num_workers={workers}")


def test_a_loader_shows_its_settings_and_its_verdict() -> None:
    loader = stoker.DataLoader(Squares(), batch_size=5, num_workers=2, mode="threads")
    assert repr(loader).startswith(
        "stoker.DataLoader(Squares, batch_size=5, num_workers=2; threads: as it was asked for"
    )


def test_the_workers_of_the_first_pass_can_be_followed() -> None:
    loader = stoker.DataLoader(Squares(40), batch_size=5, num_workers=2)
    loader._verdict = Decided("processes")
    running = iter(loader)
    assert running._workers == []  # type: ignore[attr-defined]
    for _ in range(4):
        next(running)
    pids = [worker.pid for worker in running._workers]  # type: ignore[attr-defined]
    assert len(pids) == 2 and os.getpid() not in pids
    assert sum(1 for _ in running) == len(loader) - 4
    assert running._workers == []  # type: ignore[attr-defined]


class Decided(Verdict):
    """Found out as it was decided before, whatever the clock says."""

    def __init__(self, kind: str) -> None:
        super().__init__(cores=2)
        self._kind = kind

    def together(self, seconds_a_sample: float) -> None:
        self.stays = self._kind == "threads"


@pytest.mark.parametrize("kind", ["threads", "processes"])
@pytest.mark.parametrize("is_own", [False, True], ids=["torch's generator", "one of its own"])
def test_random_streams_are_left_where_torchs_loader_leaves_them(kind: str, is_own: bool) -> None:
    left = []
    for make in (torch.utils.data.DataLoader, stoker.DataLoader):
        torch.manual_seed(1)
        own = torch.Generator().manual_seed(2) if is_own else None
        loader = make(Squares(), batch_size=5, shuffle=True, num_workers=2, generator=own)
        if isinstance(loader, stoker.DataLoader):
            loader._verdict = Decided(kind)
        running = iter(loader)
        drawn = [torch.rand(1).item()]
        labels = [labels.tolist() for _, labels in running]
        drawn += [torch.rand(1, generator=generator).item() for generator in (None, own)]
        left.append((labels, drawn))
    assert left[0] == left[1]


def test_an_iterable_data_set_goes_torchs_way() -> None:
    loader = stoker.DataLoader(Stream(), batch_size=4)
    assert [batch.tolist() for batch in loader] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


class Stream(torch.utils.data.IterableDataset):  # type: ignore[misc]
    def __iter__(self) -> Iterator[int]:
        return iter(range(10))


def test_threads_that_are_asked_for_deliver_in_order_whatever_else_is_said() -> None:
    loader = stoker.DataLoader(
        Squares(), batch_size=5, num_workers=2, in_order=False, mode="threads"
    )
    assert same(list(loader), list(torch.utils.data.DataLoader(Squares(), batch_size=5)))
    assert loader.verdict == "threads: as it was asked for"


class Makers:
    """Who made a sample: the process, and whether it was its main thread."""

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> tuple[int, bool]:
        return os.getpid(), threading.current_thread() is threading.main_thread()


class MakersTogether:
    def __len__(self) -> int:
        return 16

    def __getitems__(self, indices: list[int]) -> list[tuple[int, bool]]:
        return [Makers()[index] for index in indices]


class MakersTogetherOfTorch(torch.utils.data.Dataset[Any]):
    """torch's class has a `__getitem__` that only raises."""

    def __len__(self) -> int:
        return 16

    def __getitems__(self, indices: list[int]) -> list[tuple[int, bool]]:
        return [Makers()[index] for index in indices]


class MakersAsStream(torch.utils.data.IterableDataset):  # type: ignore[misc]
    def __iter__(self) -> Iterator[tuple[int, bool]]:
        return (Makers()[index] for index in range(16))


def begin(worker: int) -> None:
    """A worker_init_fn."""


IN_THE_LOOP = "no worker: samples are made in the loop itself, as num_workers=0"
FREE = "whole batches go to whichever worker is free"


@pytest.mark.parametrize(
    ("dataset", "settings", "sentence"),
    [
        (Makers, {}, f"threads: one, as num_workers=0{dataloader._ONE_THREAD}"),
        (Makers, {"num_workers": 1}, f"threads: one, as num_workers=1{dataloader._ONE_THREAD}"),
        (Makers, {"mode": "threads"}, "threads: one, as num_workers=0"),
        (Makers, {"mode": "threads", "num_workers": 2}, "threads: as it was asked for"),
        (Makers, {"mode": "processes"}, IN_THE_LOOP),
        (
            Makers,
            {"mode": "processes", "num_workers": 1, "collate_fn": list},
            f"processes: as it was asked for; {FREE}",
        ),
        (
            Makers,
            {"mode": "processes", "num_workers": 1, "in_order": False},
            "processes: as it was asked for; torch's own",
        ),
        (
            Makers,
            {"num_workers": 1, "in_order": False},
            "processes: needed for in_order=False; torch's own",
        ),
        (Makers, {"in_order": False}, f"threads: one, as num_workers=0{dataloader._ONE_THREAD}"),
        (Makers, {"worker_init_fn": begin}, IN_THE_LOOP),
        (
            Makers,
            {"worker_init_fn": begin, "num_workers": 1, "mode": "threads", "collate_fn": list},
            f"processes: needed for worker_init_fn; {FREE}",
        ),
        (Makers, {"batch_size": None}, IN_THE_LOOP),
        (
            Makers,
            {"batch_size": None, "num_workers": 1, "mode": "threads"},
            "processes: needed for batch_size=None; torch's own",
        ),
        (MakersTogether, {}, IN_THE_LOOP),
        (
            MakersTogether,
            {"num_workers": 1},
            f"processes: the data set gives whole batches only; {FREE}",
        ),
        (MakersTogetherOfTorch, {}, IN_THE_LOOP),
        (
            MakersTogetherOfTorch,
            {"num_workers": 1},
            f"processes: the data set gives whole batches only; {FREE}",
        ),
        (MakersAsStream, {}, IN_THE_LOOP),
        (
            MakersAsStream,
            {"num_workers": 1, "mode": "threads"},
            "processes: a stream divides itself among them by get_worker_info(), or each gives all "
            "of it; torch's own",
        ),
    ],
    ids=str,
)
def test_the_verdict_says_who_makes_the_samples_and_why(
    dataset: type, settings: dict[str, Any], sentence: str
) -> None:
    loader = stoker.DataLoader(dataset(), **{"batch_size": 4, "collate_fn": list, **settings})
    if settings.get("mode") != "threads":
        loader._verdict = Verdict(cores=2)  # also where the tests own one core
    samples = list(loader)
    assert loader.verdict == sentence
    if settings.get("batch_size", 4):
        samples = [sample for batch in samples for sample in batch]
    assert len(samples) == 16
    makers = {(process == os.getpid(), is_main) for process, is_main in samples}
    told = {"no worker": (True, True), "threads": (True, False), "processes": (False, True)}
    assert makers == {told[sentence.partition(":")[0]]}


def test_a_subset_of_whole_batches_gives_whole_batches() -> None:
    subset = torch.utils.data.Subset(MakersTogetherOfTorch(), range(4))
    assert len(list(stoker.DataLoader(subset, batch_size=2))) == 2


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_a_copy_with_other_workers_says_what_is_true_of_it(kind: str) -> None:
    loader = stoker.DataLoader(Makers(), 2, num_workers=2)
    loader._verdict = Decided(kind)
    list(loader)
    other = copy.copy(loader)
    object.__setattr__(other, "num_workers", 0)
    assert len(list(other)) == 8
    expected = IN_THE_LOOP if kind == "processes" else "threads: one, as num_workers=0"
    assert other.verdict == expected


class NoLength:
    def __getitem__(self, index: int) -> int:
        return index


class NoSamples:
    def __len__(self) -> int:
        return 4


class NoSamplesOfTorch(torch.utils.data.Dataset[Any]):
    def __len__(self) -> int:
        return 4


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"mode": "fast"}, "mode='fast'"),
        ({"num_workers": 1.5}, r"num_workers=1\.5"),
        ({"num_workers": 2, "prefetch_factor": 0}, "prefetch_factor=0"),
        ({"num_workers": 2, "prefetch_factor": 1.5}, r"prefetch_factor=1\.5"),
        ({"collate_fn": 3}, "collate_fn=3"),
        ({"num_workers": 2, "worker_init_fn": 3}, "worker_init_fn=3"),
        ({"generator": 3}, "generator=3"),
        ({"sampler": 3}, "sampler=3"),
        ({"batch_sampler": 3}, "batch_sampler=3"),
        ({"mode": "processes", "timeout": 5}, "timeout=5"),
        ({"dataset": NoLength()}, "from a NoLength: it has no __len__"),
        ({"dataset": NoSamples()}, "from a NoSamples: it has no __getitem__"),
        ({"dataset": NoSamplesOfTorch()}, "from a NoSamplesOfTorch: it has no __getitem__"),
    ],
    ids=str,
)
def test_what_no_pass_could_begin_with_is_refused_at_once(
    settings: dict[str, Any], named: str
) -> None:
    with pytest.raises(InputError, match=rf"stoker.DataLoader cannot .*{named}") as refused:
        stoker.DataLoader(**{"dataset": Squares(), **settings})
    assert refused.value.looked_at and refused.value.run_next


@pytest.mark.parametrize(
    "settings",
    [
        {"dataset": NoLength(), "sampler": range(4)},
        {"dataset": NoLength(), "batch_sampler": [[0], [1], [2], [3]]},
        {"dataset": [0, 1, 2, 3], "timeout": 5},
        {"dataset": range(4), "num_workers": np.int64(1)},
    ],
    ids=str,
)
def test_what_can_begin_is_not_refused(settings: dict[str, Any]) -> None:
    assert len(list(stoker.DataLoader(**settings))) == 4
