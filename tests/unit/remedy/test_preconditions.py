"""What each remedy refuses, and why."""

from __future__ import annotations

import errno
import os
import random
import tempfile
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from stoker.remedy.apply import plan
from stoker.remedy.private_random import own_generators
from stoker.remedy.request import parse
from stoker.remedy.settings import Settings, Subject
from tests.unit.remedy.subjects import subject_of


class Numbers:
    """A data set of three."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> int:
        return index


def subject(workers: int = 0, **changes: Any) -> Subject:
    known: dict[str, Any] = {
        "settings": Settings(workers=workers, prefetch_factor=2 if workers else None),
        "dataset": Numbers(),
        "shm_free_bytes": 10**9,
        "memory_available_bytes": 10**10,
        "worker_bytes": 10**8,
        "batch_bytes": 10**6,
    }
    return subject_of(**known | changes)


def refusal(text: str, of: Subject) -> str:
    made = plan(of, parse(text))
    assert [str(request) for request, _ in made.applied] == []
    assert made.settings == of.settings
    return made.refused[0][1].reason


def test_overlap_without_a_number_takes_a_worker_a_core() -> None:
    assert plan(subject(), parse("overlap")).settings == Settings(
        workers=4, prefetch_factor=2, is_fed=True
    )


def test_workers_come_first_whatever_the_order_in_which_they_are_named() -> None:
    made = plan(subject(), parse("persistent-workers,prefetch-depth=4,workers=2"))
    assert made.refused == ()
    assert made.settings == Settings(workers=2, prefetch_factor=4, persistent=True)


def test_no_workers_takes_away_what_only_workers_have() -> None:
    own = Settings(workers=4, prefetch_factor=4, persistent=True)
    made = plan(subject(settings=own), parse("workers=0"))
    assert made.settings == Settings(workers=0)


@pytest.mark.parametrize(
    ("text", "of", "reason"),
    [
        ("overlap=2", subject(workers=2), "has 2 workers already"),
        ("workers=2", subject(workers=2), "has 2 workers already"),
        ("workers=4", subject(is_iterable=True), "gives each worker all its samples"),
        ("workers=8", subject(batch_bytes=10**8), "MB of shared memory"),
        ("workers=8", subject(memory_available_bytes=5 * 10**8), "0.8 GB of memory do not fit"),
        ("persistent-workers", subject(), "has no workers"),
        ("prefetch-depth=4", subject(), "has no workers"),
        ("prefetch-depth=2", subject(workers=2), "prefetches 2 batches a worker already"),
        ("prefetch-depth=900", subject(workers=2), "MB of shared memory"),
        ("native-threads", subject(), "has no workers"),
        ("allocator", subject(), "has no workers"),
        ("restore-affinity", subject(), "has no workers"),
        ("unordered", subject(workers=1), "has one order"),
        ("pinned-async", subject(workers=2), "lives on the host"),
        ("pinned-async", subject(has_device=True), "overlap first"),
        ("cache-ram=9GB", subject(), "10.0 GB are available"),
        ("cache-ram=1GB", subject(is_iterable=True), "no sample by its number"),
        ("cache-ram=1GB", subject(dataset=iter(())), "no length"),
        ("cache-local=/proc/1/no:1GB", subject(), "can't be used"),
        ("cache-local=/proc/1/status:1GB", subject(), "/proc/1/status is no folder"),
        ("cache-local=/proc/1/status/in:1GB", subject(), "can't be used: Not a directory"),
    ],
)
def test_a_remedy_is_refused_with_its_reason(text: str, of: Subject, reason: str) -> None:
    assert reason in refusal(text, of)


def test_remedies_do_not_count_on_the_same_memory() -> None:
    of = subject(worker_bytes=10**9)
    both = plan(of, parse("overlap=6,cache-ram=6GB"))
    assert [str(request) for request, _ in both.applied] == ["overlap=6"]
    assert "beside the 6.0 GB of other remedies" in both.refused[0][1].reason
    for alone in ("overlap=6", "cache-ram=6GB", "overlap=6,cache-ram=2GB"):
        assert plan(of, parse(alone)).refused == ()


def test_all_but_one_keep_what_their_caches_hold() -> None:
    both = plan(subject(), parse("overlap=2,native-threads,cache-ram=1GB"))
    pared = both.without(parse("native-threads")[0])
    assert pared is not None
    assert pared.settings.layers == both.settings.layers
    assert pared.settings.duties == ()
    assert both.without(parse("overlap=2")[0]) is None  # threads are set in workers


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.ENOSPC, errno.EDQUOT])
def test_a_folder_that_takes_no_copies_is_refused(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pwrite(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "pwrite", pwrite)
    reason = refusal(f"cache-local={tmp_path}/{number}:1MB", subject())
    assert reason.endswith(f"can't be used: {os.strerror(number)}")


def test_a_local_copy_larger_than_the_disk_is_refused(tmp_path: Path) -> None:
    assert "free, not" in refusal(f"cache-local={tmp_path}:900TB", subject())


def test_a_data_set_that_is_told_of_epochs_keeps_no_workers() -> None:
    class Curriculum(Numbers):
        def set_epoch(self, epoch: int) -> None: ...

    assert "set_epoch()" in refusal("persistent-workers", subject(workers=2, dataset=Curriculum()))


@pytest.mark.parametrize(
    "generator", [random.Random(0), np.random.default_rng(0), np.random.RandomState(0)]
)
def test_a_generator_of_the_data_sets_own_is_found_and_named(generator: object) -> None:
    dataset = Numbers()
    dataset.transforms = [len, {"noise": generator}]  # type: ignore[attr-defined]
    for text in ("overlap=2", "cache-ram=1MB"):
        assert "self.transforms[1]['noise']" in refusal(text, subject(dataset=dataset))


def test_a_generator_of_torch_is_found_as_well() -> None:
    torch = pytest.importorskip("torch")
    dataset = Numbers()
    dataset.rng = torch.Generator()  # type: ignore[attr-defined]
    assert "self.rng" in refusal("overlap=2", subject(dataset=dataset))


NOISE = np.random.default_rng(0)


class Slotted:
    __slots__ = ("rng",)

    def __init__(self) -> None:
        self.rng = random.Random(0)


class Calling:
    """A data set whose code calls a function for its samples."""

    shared = random.Random(0)

    def __init__(self, function: Any) -> None:
        self.function = function

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> Any:
        return self.helper(index)

    def helper(self, index: int) -> Any:
        return self.function(index)


class Helped(Numbers):
    def __getitem__(self, index: int) -> Any:
        return self.noise(index)

    def noise(self, index: int) -> Any:
        return index + NOISE.random()


def _closed(rng: Any) -> Any:
    return lambda index: index + rng.random()


def _with_default(index: int, rng: Any = NOISE) -> Any:
    return index + rng.random()


def _from_partial(rng: Any, index: int) -> Any:
    return index + rng.random()


def _deep() -> Any:
    """As a Subset holds it: dataset, transform, transforms, [0], rng."""
    dataset, transform = Numbers(), SimpleNamespace(transforms=[SimpleNamespace(rng=NOISE)])
    dataset.transform = SimpleNamespace(transform=transform)  # type: ignore[attr-defined]
    return SimpleNamespace(dataset=dataset, indices=[1], __len__=len)


@pytest.mark.parametrize(
    ("dataset", "where"),
    [
        (_deep(), "self.dataset.transform.transform.transforms[0].rng"),
        (Helped(), "NOISE of Helped.noise"),
        (Calling(_closed(NOISE)), "shared"),
        (SimpleNamespace(f=_closed(NOISE)), "rng of _closed.<locals>.<lambda>"),
        (SimpleNamespace(f=_with_default), "a default of _with_default"),
        (SimpleNamespace(f=partial(_from_partial, NOISE)), "self.f.args[0]"),
        (SimpleNamespace(f=Slotted()), "self.f.rng"),
    ],
)
def test_a_generator_is_found_wherever_the_making_of_samples_gets_at_it(
    dataset: Any, where: str
) -> None:
    assert where in (own_generators(dataset) or "none")


def test_global_generators_and_the_library_s_own_are_no_reason() -> None:
    class Plain(Numbers):
        def __getitem__(self, index: int) -> Any:
            tempfile.gettempdir()
            return index + random.random() + np.random.rand() + random.choice([1, 2])

    assert own_generators(Plain()) is None
