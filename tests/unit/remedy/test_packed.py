"""Samples out of a pack under a running script: compared, served, and dropped when out of date."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stoker.pack.sources import dataset as sources
from stoker.random_state import states
from stoker.remedy.apply import plan
from stoker.remedy.code import change_of
from stoker.remedy.packed import PackedSamples
from stoker.remedy.request import parse
from tests.unit.pack.conftest import packed
from tests.unit.remedy.test_preconditions import subject

torch = pytest.importorskip("torch")

SAMPLES = 600


class Signals:
    """Arrays that a file could hold, and which of them were made."""

    def __init__(self) -> None:
        self.transforms = [np.cumsum, self.shifted]
        self.asked: list[int] = []  # also by the copies that are compared
        self.gain = 1

    def __len__(self) -> int:
        return SAMPLES

    def shifted(self, signal: Any) -> Any:
        return signal + random.randrange(100)

    def __getitem__(self, index: int) -> Any:
        self.asked.append(index)
        signal = np.arange(8) * (index + 1) * self.gain
        for transform in self.transforms:
            signal = transform(signal)
        return signal, index


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    before = dict(sources._IN_HAND)
    sources.take_in_hand("here.py:Signals", Signals())
    packed("here.py:Signals", tmp_path / "p", size=None, shard_bytes=20_000)
    yield tmp_path / "p"
    sources._IN_HAND.clear()
    sources._IN_HAND.update(before)


def layer_over(dataset: Signals, folder: Path) -> PackedSamples:
    made = plan(subject(dataset=dataset), parse(f"pack={folder}"))
    assert made.refused == ()
    ((_, change),) = made.applied
    assert "done anew: shifted (16 whole samples compared: the same bytes)" in change.told
    assert change.data.startswith("same order; same samples as far as they are compared")
    (layer,) = made.settings.layers
    assert isinstance(layer, PackedSamples)
    return layer


def test_samples_are_the_data_sets_own_and_hardly_one_is_made(folder: Path) -> None:
    dataset, twin = Signals(), Signals()
    served = layer_over(dataset, folder).around(dataset)
    dataset.asked.clear()
    random.seed(4)
    ours = [served[index] for index in range(SAMPLES)]
    after = states()
    random.seed(4)
    for (signal, label), (own, own_label) in zip(
        ours, map(twin.__getitem__, range(SAMPLES)), strict=True
    ):
        np.testing.assert_array_equal(signal, own)
        assert label == own_label
    assert states() == after
    assert 2 <= len(dataset.asked) < 10


def test_behind_generators_of_its_own_only_what_is_stored_was_compared(folder: Path) -> None:
    class Drawing(Signals):
        def __init__(self) -> None:
            super().__init__()
            self.own = random.Random(3)

        def shifted(self, signal: Any) -> Any:
            return signal + self.own.randrange(100)

    dataset = Drawing()
    ((_, change),) = plan(subject(dataset=dataset), parse(f"pack={folder}")).applied
    assert "(16 samples as they are stored compared: the same bytes)" in change.told


def test_a_data_set_that_changes_is_its_own_again(folder: Path) -> None:
    dataset = Signals()
    layer = layer_over(dataset, folder)
    served = layer.around(dataset)
    for index in range(5, 10):
        served[index]
    assert layer.problem() is None
    dataset.gain = 2
    layer.renew()
    anew = layer.around(dataset)
    random.seed(1)
    signal, _ = anew[7]
    random.seed(1)
    np.testing.assert_array_equal(signal, dataset[7][0])
    assert "sample 7 is another than the one that was packed" in (layer.problem() or "")
    # Whoever serves from it sees that, in other processes, too.
    served[11]
    assert dataset.asked[-1] == 11


@pytest.mark.parametrize("kind", [np.int64, np.int32, torch.tensor])
def test_numbers_of_other_libraries_are_looked_at_as_well(folder: Path, kind: Any) -> None:
    class Labelled(Signals):
        def __getitem__(self, index: Any) -> Any:
            return super().__getitem__(int(index))

    dataset = Labelled()
    layer = layer_over(dataset, folder)
    layer.around(dataset)[kind(3)]
    assert layer.problem() is None
    dataset.gain = 2
    layer.around(dataset)[kind(7)]
    assert "sample 7 is another than the one that was packed" in (layer.problem() or "")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"is_iterable": True}, "an iterable data set gives no sample by its number"),
        ({"dataset": [1, 2, 3]}, "it has 600 samples, the data set 3"),
    ],
)
def test_what_does_not_belong_together_is_refused(
    folder: Path, change: dict[str, Any], reason: str
) -> None:
    made = plan(subject(**change), parse(f"pack={folder}"))
    assert made.applied == ()
    assert reason in made.refused[0][1].reason


def test_a_pack_is_asked_below_the_cache(folder: Path) -> None:
    dataset = Signals()
    made = plan(subject(dataset=dataset), parse(f"cache-ram=1MB,pack={folder}"))
    assert [type(layer).__name__ for layer in made.settings.layers] == ["PackedSamples", "RamCache"]


def test_the_layer_asks_for_batches_where_the_data_set_gives_them(folder: Path) -> None:
    class Batched(Signals):
        def __getitems__(self, indices: list[int]) -> list[Any]:
            return [self[index] for index in indices]

    dataset = Batched()
    served = layer_over(dataset, folder).around(dataset)
    assert [label for _, label in served.__getitems__([3, 1])] == [3, 1]
    assert not hasattr(layer_over(Signals(), folder).around(Signals()), "__getitems__")
    dataset.gain = 2
    layer = layer_over(Batched(), folder)
    changed = layer.around(dataset)
    assert changed.__getitems__([5])[0][0][1] >= 4  # doubled twice, and shifted
    assert layer.problem() is not None


def test_the_change_of_the_code_wraps_the_data_set(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\nfrom torch.utils.data import DataLoader\n\n"
        "data = make()\nloader = DataLoader(dataset=data, batch_size=8)\n"
    )
    told = change_of(str(script), parse("pack=/packs/p,overlap=2"))
    assert "+import stoker.pack\n" in told
    assert (
        "+loader = DataLoader(dataset=stoker.pack.in_place_of(data, '/packs/p'), batch_size=8, "
        "num_workers=2)\n"
    ) in told
    assert change_of(None, parse("pack=/packs/p")).endswith(
        "import stoker.pack\nDataLoader(stoker.pack.in_place_of(dataset, '/packs/p'), …)\n"
    )
