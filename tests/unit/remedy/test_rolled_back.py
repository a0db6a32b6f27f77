"""Loaders of torch under remedies, in a process whose clock is moved by the samples: what is kept,
what is dropped, and what of it stays behind.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stoker.remedy import feed as feeding
from stoker.remedy.apply import Plan, plan
from stoker.remedy.cache_ram import RamCache
from stoker.remedy.course import LoaderCourse
from stoker.remedy.delivery import Deliveries
from stoker.remedy.feed import Feed
from stoker.remedy.indices import Indices
from stoker.remedy.ledger import LoaderAccount
from stoker.remedy.orders import Orders
from stoker.remedy.proof import Proof
from stoker.remedy.request import parse
from stoker.remedy.settings import Settings
from stoker.remedy.steps import Steps
from stoker.remedy.supply import settings_of
from stoker.remedy.trial import Way
from tests.unit.remedy.subjects import subject_of

torch = pytest.importorskip("torch")
pytest.importorskip("numpy.random")  # imported meanwhile, it would look like random numbers drawn

SAMPLE_S, STEP_S = 0.01, 0.005
SAMPLES, BATCH = 96, 4


class Clock:
    """Seconds that pass in samples and steps alone."""

    now = 0.0

    def wall_s(self) -> float:
        return self.now


CLOCK = Clock()  # not the data set's own, which may not change by giving samples


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeding, "clocks", CLOCK)


class Photos(torch.utils.data.Dataset):  # type: ignore[misc]
    """Samples that take their time, and read a file where they have one."""

    def __init__(self, file: Path | None = None) -> None:
        self.file = file

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> Any:
        CLOCK.now += SAMPLE_S
        if self.file is not None:
            self.file.read_bytes()
        return torch.full((256,), float(index)), index


class Training:
    """A loader under remedies, and the loop over it."""

    def __init__(self, remedies: str, *, file: Path | None = None) -> None:
        self.loader = torch.utils.data.DataLoader(Photos(file), batch_size=BATCH, shuffle=True)
        self.told: list[str] = []
        self.account = LoaderAccount("Photos")
        requests = parse(remedies)
        orders = Orders(requests=requests, window_s=0.1)
        subject = subject_of(settings_of(self.loader), self.loader.dataset)
        self.plan = plan(subject, requests)
        self.course = LoaderCourse(
            self.loader,
            self.plan,
            self.account,
            iterate=torch.utils.data.DataLoader.__iter__,
            deliveries=Deliveries(self.told.append),
            tell=self.told.append,
            orders=orders,
            steps=Steps(),
            proof=Proof.of(self.plan, orders, samples=SAMPLES, batches=SAMPLES // BATCH),
            announce=self.announce,
        )

    def announce(self, made: Plan) -> None:
        self.account.applied = [{"remedy": str(request)} for request, _ in made.applied]

    @property
    def cache(self) -> RamCache:
        (cache,) = (one for one in self.plan.settings.layers if isinstance(one, RamCache))
        return cache

    def train(self, epochs: int) -> None:
        for _ in range(epochs):
            seen: list[int] = []
            for _, index in self.course.begin(self.loader):
                CLOCK.now += STEP_S
                seen += index.tolist()
            assert sorted(seen) == list(range(SAMPLES))


def test_a_cache_that_helps_from_the_second_epoch_on_is_kept() -> None:
    training = Training("cache-ram=10MB")
    training.train(8)
    assert training.account.kept is True
    assert training.account.rolled_back is None


def test_a_cache_that_is_rolled_back_gives_its_memory_back() -> None:
    training = Training("cache-ram=10MB")
    training.train(1)
    fd = training.cache._store._fd
    assert training.cache.held()
    before = os.fstat(fd).st_blocks
    settings = training.course.supply(Way.REMEDIED).settings
    assert training.course.failed(RuntimeError("no handle"), settings)
    training.train(1)
    assert training.cache._store.used == 0
    assert os.fstat(fd).st_blocks < before / 4


def test_of_several_remedies_the_one_without_a_gain_is_dropped(tmp_path: Path) -> None:
    (tmp_path / "photo").write_bytes(b"photo")
    remedies = f"cache-ram=10MB,cache-local={tmp_path}/copies:1MB"
    training = Training(remedies, file=tmp_path / "photo")
    training.train(16)
    (dropped,) = training.account.dropped
    assert dropped["remedy"].startswith("cache-local")
    assert [one["remedy"] for one in training.account.applied] == ["cache-ram=10MB"]
    assert training.account.kept is True
    assert training.cache.held() == SAMPLES  # what the other one has stays with it
    assert len([line for line in training.told if "rolled back" in line]) == 1


class Named:
    """A loader that gives what it takes, with its own name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.settings = Settings(workers=0)

    def stop(self, _: Iterator[Any]) -> None:
        """Nothing is on its way."""

    def begin(self, indices: Indices, _: Any) -> Iterator[Any]:
        while True:
            try:
                yield self.name, indices.take()
            except StopIteration:
                return


def courses(way: Way, supply: Any) -> Any:
    """A course that only says which loader comes next."""
    return SimpleNamespace(
        way=way,
        supply=supply,
        started=lambda *_: None,
        stepped=lambda *_: None,
        asked=lambda: False,
        gave=lambda *_: None,
        left=lambda: None,
        failed=lambda *_: False,
    )


def test_a_way_that_is_taken_back_before_it_has_begun_ends_no_epoch() -> None:
    supplies = {Way.OWN: Named("own"), Way.REMEDIED: Named("remedied")}
    course = courses(Way.OWN, supplies.__getitem__)
    feed = Feed(course, Indices(iter(range(6))), 6, base=None, waits=True)
    assert next(feed) == ("own", 0)
    course.way = Way.REMEDIED
    assert next(feed) == ("own", 1)  # was asked for under the own way
    course.way = Way.OWN
    assert list(feed) == [("own", index) for index in range(2, 6)]


def test_a_loader_that_is_replaced_under_its_way_gives_no_more_batches() -> None:
    first, second = Named("all"), Named("pared")
    course = courses(Way.REMEDIED, lambda _: first)
    feed = Feed(course, Indices(iter(range(4))), 4, base=None, waits=True)
    next(feed)
    course.supply = lambda _: second
    assert [name for name, _ in feed] == ["all", "pared", "pared"]


def test_what_takes_too_much_shared_memory_is_refused_before_it_begins() -> None:
    training = Training("overlap=2,prefetch-depth=16")
    small = replace(training.plan.subject, shm_free_bytes=64_000)
    refused: list[str] = []

    def announce(made: Plan) -> None:
        refused.extend(str(request) for request, _ in made.refused)

    course = training.course
    course._replan = lambda size: plan(
        replace(small, batch_bytes=size), parse("overlap=2,prefetch-depth=16")
    )
    course._announce = announce
    batches = course.begin(training.loader)
    assert course.way is Way.OWN
    next(batches)
    # Of batches of 4 x (1024 + 8) bytes half the memory holds seven, not 32.
    assert refused == ["prefetch-depth=16"]
    assert course._plan.settings.depth == 4
    batches.close()


@pytest.mark.parametrize("entry", ["proof.step", "_certificate.check", "_look"])
def test_what_breaks_in_the_judging_of_remedies_never_reaches_the_script(
    entry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("no mean of nothing")

    training = Training("cache-ram=10MB")
    training.course._certificate.wanted = 4
    holder, _, name = entry.rpartition(".")
    owner = getattr(training.course, holder) if holder else training.course
    monkeypatch.setattr(owner, name, broken)
    training.train(2)
    assert training.account.rolled_back == "ZeroDivisionError: no mean of nothing"


def test_all_remedied_loaders_forget_the_data_set_that_was(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    class Loader:
        def __init__(self, name: str) -> None:
            self.name = name

        def close(self) -> None:
            done.append(f"close {self.name}")

        def renew(self) -> None:
            done.append(f"renew {self.name}")

    supplies = Training("cache-ram=10MB").course._supplies
    made = {way: Loader(way.value) for way in Way}
    monkeypatch.setattr(supplies, "_made", made)
    supplies.renew()
    assert done == ["close remedied", "close pared", "renew remedied", "renew pared"]
