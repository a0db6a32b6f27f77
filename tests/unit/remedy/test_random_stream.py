"""The script's random stream and order under remedies, against those of its own loader."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from stoker.remedy.ledger import Ledger
from stoker.remedy.loaders import Loaders
from stoker.remedy.orders import Orders
from stoker.remedy.request import parse
from stoker.remedy.trial import Way
from tests.attach.remedied import environment

torch = pytest.importorskip("torch")
dataloader = pytest.importorskip("stoker.loader.dataloader")


class Numbers:
    """A data set of 24 that makes its samples from their number alone."""

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> Any:
        return torch.tensor(float(index))


def loader(dataset: Any = None, **options: Any) -> Any:
    given = {"batch_size": 2, "shuffle": True} | options
    return torch.utils.data.DataLoader(Numbers() if dataset is None else dataset, **given)


@contextmanager
def remedied(text: str, *, is_quiet: bool = True, **orders: Any) -> Iterator[Loaders]:
    import torch.utils.data.dataloader as module

    found = Loaders(
        Orders(requests=parse(text), **orders),
        module,
        Ledger(is_quiet=is_quiet, json_path=None, script=None),
    )
    found.install()
    try:
        yield found
    finally:
        found.close()


def compare(training: Callable[[], list[Any]], remedies: str, **orders: Any) -> list[Any]:
    """Batches and following random numbers, with remedies, are those without; the rollbacks."""
    torch.manual_seed(1)
    expected = [*training(), torch.rand(1).item()]
    torch.manual_seed(1)
    with remedied(remedies, **orders) as loaders:
        assert [*training(), torch.rand(1).item()] == expected
        return [account.rolled_back for account in loaders._ledger._accounts]


@pytest.mark.parametrize("baseline", [None, 1e-9, 1e9], ids=["trial", "no gain", "gain"])
def test_a_script_that_keeps_its_workers_draws_one_base_seed(baseline: float | None) -> None:
    def training() -> list[Any]:
        batches = loader(num_workers=1, persistent_workers=True)
        return [(batch.tolist(), torch.rand(1).item()) for _ in range(3) for batch in batches]

    compare(training, "workers=2", baseline_s=baseline, window_s=1e-6)


@pytest.mark.parametrize("workers", [0, 1])
def test_loaders_side_by_side_keep_their_orders(workers: int) -> None:
    def training() -> list[Any]:
        one, other = loader(num_workers=workers), loader(num_workers=workers)
        pairs = [pair for _ in range(2) for pair in zip(one, other, strict=True)]
        return [(first.tolist(), second.tolist()) for first, second in pairs]

    compare(training, "workers=2", baseline_s=1e9)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("began", [0, 5])
def test_of_two_passes_at_once_both_keep_their_orders(began: int, workers: int) -> None:
    def training() -> list[Any]:
        batches = loader(num_workers=workers)
        older = iter(batches)
        given = [next(older).tolist() for _ in range(began)]
        for newer in batches:
            given += [newer.tolist(), *(one.tolist() for one in islice(older, 1))]
        return given

    assert compare(training, "workers=2", baseline_s=1e9) == [None]


class LateFirst(Numbers):
    """The first sample is done behind some that come after it."""

    def __getitem__(self, index: int) -> Any:
        time.sleep(1.0 if index == 0 else 0.0)
        return super().__getitem__(index)


def test_of_two_passes_at_once_in_any_order_both_give_every_sample() -> None:
    with remedied("prefetch-depth=4", baseline_s=1e9):
        batches = loader(LateFirst(), batch_size=1, shuffle=False, num_workers=2, in_order=False)
        older = iter(batches)
        first = [int(next(older)) for _ in range(2)]
        newer = [int(batch) for batch in batches]
        assert sorted(first + [int(batch) for batch in older]) == list(range(24))
        assert sorted(newer) == list(range(24))


def test_an_epoch_that_is_left_and_held_leaves_the_remedies_to_the_next() -> None:
    torch.manual_seed(1)
    with remedied("workers=1", baseline_s=1e9) as loaders:
        batches = loader()
        for _ in range(3):
            held = iter(batches)  # the one before is let go behind this
            for _ in range(8):
                next(held)
        account = loaders._ledger._accounts[0]
    assert len(account.starts[Way.OWN]) == 1  # until the sampler is known
    assert len(account.starts[Way.REMEDIED]) == 2


class Turning(torch.utils.data.Sampler):  # type: ignore[misc]
    """Begins elsewhere in each epoch, and counts the epochs by itself."""

    epoch = 0

    def __len__(self) -> int:
        return 24

    def __iter__(self) -> Iterator[int]:
        for number in range(24):
            yield (number + self.epoch) % 24
        self.epoch += 1


def test_a_sampler_that_changes_itself_at_its_end_keeps_the_remedies() -> None:
    def training() -> list[Any]:
        batches = loader(sampler=Turning(), shuffle=False)
        return [batch.tolist() for _ in range(3) for batch in batches]

    assert compare(training, "workers=2", baseline_s=1e9) == [None]


def test_a_script_that_forgets_its_loader_in_the_midst_of_an_epoch_gets_its_batches() -> None:
    def training() -> list[Any]:
        seen: list[Any] = []
        for _ in range(2):
            batches = loader()
            iterator = iter(batches)
            seen.append(next(iterator).tolist())
            del batches
            gc.collect()
            seen += [batch.tolist() for batch in iterator]
        return seen

    assert compare(training, "workers=2", baseline_s=1e9) == [None]


def test_an_evaluation_with_gradients_on_keeps_its_own_loader() -> None:
    class Others(Numbers):
        """The next stage of the training."""

    with remedied("workers=1", baseline_s=1e9) as loaders:
        training, evaluation = loader(), loader()
        for _ in range(2):
            for _ in training:
                loaders.steps.count += 1
            assert len(list(evaluation)) == 12
        evaluated = loaders._courses[evaluation]
        assert evaluated is not None
        assert evaluated.way is Way.OWN
        account = loaders._ledger._accounts[0]
        assert account.steps[Way.REMEDIED].count >= 11
        assert sum(map(len, account.starts.values())) == 2  # of the training alone
        for _ in loader(Others()):
            loaders.steps.count += 1
        later = loaders._ledger._accounts[1:]
    assert [one.loader.rpartition(".")[2] for one in later] == ["Others"]
    assert later[0].steps[Way.REMEDIED].count > 0


class Stateful(torch.utils.data.DataLoader):  # type: ignore[misc]
    """Past torch's own `__iter__`."""

    def __iter__(self) -> Any:
        return self._get_iterator()


def test_a_loader_that_iterates_in_its_own_way_is_refused_by_name() -> None:
    with remedied("overlap=2,cache-ram=1MB") as loaders:
        batches = Stateful(Numbers(), batch_size=2)
        with torch.no_grad():
            assert len(list(batches)) == 12
        assert loaders._ledger.is_empty
        assert [len(list(batches)) for _ in range(2)] == [12, 12]
        accounts = loaders._ledger._accounts
    assert len(accounts) == 1
    assert accounts[0].applied == []
    reasons = {entry["remedy"]: entry["reason"] for entry in accounts[0].refused}
    assert set(reasons) == {"overlap=2", "cache-ram=1MB"}
    assert all("Stateful iterates in a way of its own" in why for why in reasons.values())


class Compared(torch.utils.data.DataLoader):  # type: ignore[misc]
    """Equal to all of its kind, and so without a hash."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Compared)


def test_a_loader_without_a_hash_has_remedies_of_its_own() -> None:
    def training() -> list[Any]:
        one, other = Compared(Numbers(), batch_size=2), Compared([torch.ones(1)] * 6)
        return [batch.tolist() for _ in range(2) for each in (one, other) for batch in each]

    assert compare(training, "workers=2", baseline_s=1e9) == [None, None]


@pytest.mark.parametrize("kind", [torch.utils.data.DataLoader, Compared])
def test_whatever_breaks_the_script_goes_on(
    kind: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    class WordlessError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    with remedied("workers=2", is_quiet=False) as loaders:
        for error in (ValueError("a mistake of ours"), WordlessError()):
            monkeypatch.setattr(loaders, "_course", Mock(side_effect=error))
            assert len(list(kind(Numbers(), batch_size=2))) == 12
    assert "the script keeps its own loader: ValueError: a mistake" in capfd.readouterr().err


@pytest.mark.parametrize("dataset", [None, "there.Photos"])
def test_a_training_without_a_loader_is_told_that_nothing_was_applied(
    dataset: str | None, capfd: pytest.CaptureFixture[str]
) -> None:
    with remedied("overlap=2", dataset=dataset, is_quiet=False) as loaders:
        loaders.steps.count = 3
    told = capfd.readouterr().err
    assert "stoker run: nothing was applied: the optimizer has made 3 steps" in told
    assert (dataset or "no torch DataLoader") in told


@pytest.mark.parametrize("dataset", [None, f"{Numbers.__module__}.Numbers"])
@pytest.mark.parametrize(
    ("which", "why"),
    [
        ("off", "a DataLoader was iterated with gradients off"),
        ("own way", "a DataLoader was iterated with gradients off"),
        ("stoker", "stoker.DataLoader makes its batches in a way of its own"),
        ("broken", "a loader was left to the script behind an error, told above"),
        ("later", "none of them was seen to follow a batch of a DataLoader"),
    ],
)
def test_a_loader_that_was_left_alone_is_not_denied(
    which: str,
    why: str,
    dataset: str | None,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    own = dataloader.DataLoader._get_iterator
    with remedied("overlap=2", dataset=dataset, is_quiet=False) as loaders:
        loaders.watch_stoker(dataloader)
        kind = {"stoker": dataloader.DataLoader, "own way": Stateful}.get(which)
        batches = kind(Numbers(), batch_size=2) if kind is not None else loader()
        if which == "broken":
            monkeypatch.setattr(loaders, "_course", Mock(side_effect=ValueError("ours")))
        loaders.steps.count = 1 if which == "later" else 0
        with torch.set_grad_enabled(which not in ("off", "own way")):
            assert len(list(batches)) == 12
        loaders.steps.count = 3
    told = capfd.readouterr().err
    assert f"nothing was applied: the optimizer has made 3 steps; {why}" in told
    assert "no torch DataLoader" not in told
    assert "no DataLoader gave" not in told
    assert dataloader.DataLoader._get_iterator is own


def test_a_loader_of_another_data_set_gave_no_batches_of_it(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with remedied("overlap=2", dataset="there.Photos", is_quiet=False) as loaders:
        with torch.no_grad():
            list(loader())
        loaders.steps.count = 3
    assert "no DataLoader gave batches of there.Photos" in capfd.readouterr().err


LOOP = """
import torch, stoker
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in stoker.DataLoader([torch.ones(4)] * 10, 2):
    model(batch).sum().backward()
    optimizer.step()
"""


@pytest.mark.full
def test_a_script_under_stoker_s_own_loader_is_told_so(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", LOOP],
        env=environment("overlap=2", tmp_path / "account.json"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "has made 5 steps; stoker.DataLoader makes its batches" in ended.stderr


def test_random_parts_under_a_cache_that_keeps_them_roll_it_back() -> None:
    class Noisy(Numbers):
        """One sample is random, and not one of those that the cache makes twice."""

        def __getitem__(self, index: int) -> Any:
            draws = np.random.default_rng().random(2000)
            return torch.from_numpy(draws if index == 20 else np.ones(2000))

    torch.manual_seed(1)
    with remedied("cache-ram=1MB", baseline_s=1e9, checked_batches=40) as loaders:
        batches = loader(Noisy(), shuffle=False)
        for _ in range(3):
            list(batches)
    told = loaders._ledger._accounts[0].rolled_back or ""
    assert "but for batch, drawn at random" in told
    assert told.endswith("kept, it would never be drawn anew")


class Drawing(torch.utils.data.Sampler):  # type: ignore[misc]
    def __len__(self) -> int:
        return 24

    def __iter__(self) -> Iterator[int]:
        for _ in range(24):
            yield int(torch.randint(24, ()))


class Heeding(Drawing):
    """A curriculum: the training says what comes next."""

    level = 0

    def __iter__(self) -> Iterator[int]:
        for _ in range(24):
            yield self.level % 24


class Levelled(Numbers):
    def __init__(self) -> None:
        self.level = 0.0

    def __getitem__(self, index: int) -> Any:
        return torch.tensor(index + self.level)


class Counting:
    count = 0

    def __call__(self, samples: list[Any]) -> Any:
        self.count += 1
        return torch.stack(samples) + self.count


@pytest.mark.parametrize("which", ["draws", "heeds", "level", "late level", "collate"])
@pytest.mark.parametrize("baseline", [None, 1e9])
def test_what_depends_on_when_it_is_done_stays_the_script_s_own(
    which: str, baseline: float | None
) -> None:
    reasons = {
        "draws": "the sampler draws random numbers",
        "heeds": "the script changes its sampler",
        "level": "the script changes the data set",
        "late level": "the script changes the data set",
        "collate": "making batches changes",
    }

    def training() -> list[Any]:
        dataset, sampler = Levelled(), {"draws": Drawing, "heeds": Heeding}.get(which)
        options: dict[str, Any] = {"collate_fn": Counting()} if which == "collate" else {}
        if sampler is not None:
            options |= {"sampler": sampler(), "shuffle": False}
        batches, given = loader(dataset, **options), []
        for _ in range(2):
            for number, batch in enumerate(batches):
                given.append((batch.tolist(), torch.rand(()).item()))
                if which == "heeds":
                    batches.sampler.level += 1
                if which == "level" or (which == "late level" and number > 9):
                    dataset.level += 0.25
        return given

    told = compare(training, "workers=2", baseline_s=baseline)
    assert reasons[which] in told[0]
