"""A Loader's `augment` in worker processes: the same batches, named failures, workers kept."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import stoker
from stoker.errors import InputError, LoaderError
from stoker.pack import write_arrays

SAMPLES = 40


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    images = np.random.default_rng(0).integers(0, 256, (SAMPLES, 16, 16, 3), np.uint8)
    write_arrays(tmp_path / "pack", {"image": images, "label": np.arange(SAMPLES)})
    return tmp_path / "pack"


def augment(batch: Any, *, seed: int, epoch: int) -> Any:
    """Something in Python, with who made it."""
    made = dict(batch)
    made["image"] = batch["image"].float() + seed + epoch
    made["maker"] = os.getpid()
    return made


def test_the_batches_are_those_of_a_thread_and_made_by_workers_that_stay(pack: Path) -> None:
    plain = stoker.Loader(pack, 6, shuffle=True, crop=8, seed=3, augment=augment)
    loader = stoker.Loader(pack, 6, shuffle=True, crop=8, seed=3, augment=augment, workers=2)
    makers: set[int] = set()
    for _ in range(2):
        kept = list(loader)
        for wanted, found in zip(plain, kept, strict=True):
            for name in ("image", "label", "index"):
                assert torch.equal(found[name], wanted[name])
            assert found["image"].stride() == wanted["image"].stride()
        makers |= {batch["maker"] for batch in kept}
    assert len(makers) <= 2 and os.getpid() not in makers


def test_a_loop_that_is_left_can_be_resumed(pack: Path) -> None:
    loader = stoker.Loader(pack, 6, shuffle=True, crop=8, augment=augment, workers=2)
    running = iter(loader)
    next(running)
    state = loader.state_dict()
    wanted = next(running)["index"].tolist()
    del running
    loader.load_state_dict(state)
    assert next(iter(loader))["index"].tolist() == wanted


def counting(loader: Any) -> list[Any]:
    """As some training libraries' loops: never asks for the end."""
    running = iter(loader)
    return [next(running) for _ in range(len(loader))]


def leaving(loader: Any) -> list[Any]:
    kept = []
    for batch in loader:
        kept.append(batch)
        if len(kept) == 2:
            break
    return kept


@pytest.mark.parametrize("loop", [list, counting, leaving])
def test_workers_are_kept_however_a_loop_ends(pack: Path, loop: Any) -> None:
    loader = stoker.Loader(pack, 6, augment=augment, workers=1)
    made = [loop(loader) for _ in range(3)]
    assert len({batch["maker"] for batches in made for batch in batches}) == 1
    wanted = range(SAMPLES if loop is not leaving else 12)
    for batches in made:
        assert [i for batch in batches for i in batch["index"].tolist()] == list(wanted)


def test_two_passes_at_once_have_workers_each(pack: Path) -> None:
    loader = stoker.Loader(pack, 6, augment=augment, workers=1)
    both = list(zip(loader, loader, strict=True))
    assert sum(len(one["index"]) for one, _ in both) == SAMPLES
    assert len({batch["maker"] for pair in both for batch in pair}) == 2


def failing(batch: Any, *, seed: int, epoch: int) -> Any:
    if 13 in batch["index"]:
        raise ArithmeticError("thirteen")
    return batch


def deadly(batch: Any, *, seed: int, epoch: int) -> Any:
    os._exit(4)


def test_what_augment_raises_keeps_its_type_and_names_the_samples(pack: Path) -> None:
    loader = stoker.Loader(pack, 6, augment=failing, workers=2)
    for _ in range(2):
        running = iter(loader)
        assert [len(next(running)["index"]) for _ in range(2)] == [6, 6]
        with pytest.raises(ArithmeticError, match="thirteen") as raised:
            next(running)
        notes = "\n".join(raised.value.__notes__)
        assert "samples 12, 13, 14" in notes and "in failing" in notes


def test_a_dead_worker_is_an_error(pack: Path) -> None:
    loader = stoker.Loader(pack, 6, augment=deadly, workers=1)
    with pytest.raises(LoaderError, match="exit code 4") as raised:
        next(iter(loader))
    assert "stage 'augment'" in raised.value.looked_at


@pytest.mark.parametrize(
    "settings", [{"augment": augment, "workers": -1}, {"workers": 2}], ids=["-1", "no augment"]
)
def test_workers_that_cannot_be_are_refused(pack: Path, settings: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="workers="):
        stoker.Loader(pack, 6, **settings)
