"""What only a CUDA device can show of feed and the Loader; skipped, and said so, without one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import stoker
from stoker.loader.batch import Batch
from stoker.pack import write_arrays

pytestmark = pytest.mark.gpu

COUNT = 200


def batches() -> Iterator[dict[str, torch.Tensor]]:
    for number in range(COUNT):
        yield {"x": torch.full((64, 3, 64, 64), float(number))}


def test_batches_are_whole_on_the_device_while_the_model_is_busy() -> None:
    work = torch.rand(2048, 2048, device="cuda")
    sums = []
    for batch in stoker.feed(batches(), device="cuda"):
        work = work @ work / 2048
        sums.append(batch["x"].mean())
    assert torch.stack(sums).tolist() == [float(number) for number in range(COUNT)]


@dataclasses.dataclass
class Held:
    """Of what it holds its constructor takes one tensor."""

    x: torch.Tensor
    mask: torch.Tensor = dataclasses.field(init=False)


def test_all_of_a_dataclass_goes_and_lengths_of_packed_sequences_stay() -> None:
    held = Held(torch.ones(3))
    held.mask = torch.zeros(3)
    held.text = torch.nn.utils.rnn.pack_sequence(  # type: ignore[attr-defined]
        [torch.ones(3), torch.ones(2)]
    )
    (batch,) = stoker.feed([held], device="cuda")
    assert batch.x.is_cuda and batch.mask.is_cuda and not held.mask.is_cuda
    assert batch.text.data.is_cuda and not batch.text.batch_sizes.is_cuda
    rows, lengths = torch.nn.utils.rnn.pad_packed_sequence(batch.text)
    assert rows.sum().item() == 5 and lengths.tolist() == [3, 2]


def test_the_loader_brings_every_sample_and_augments_on_the_device(tmp_path: Path) -> None:
    ran: list[tuple[bool, bool, bool]] = []

    def augment(batch: Batch, *, seed: int, epoch: int) -> Batch:
        is_beside = torch.cuda.current_stream() != torch.cuda.default_stream()
        ran.append((batch.image.is_cuda, batch.index.is_cuda, is_beside))
        return recipe(batch, seed=seed, epoch=epoch)

    images = np.random.default_rng(0).integers(0, 256, (64, 40, 40, 3), np.uint8)
    pack = write_arrays(tmp_path / "p", {"image": images, "label": np.arange(64)})
    recipe = stoker.augment.Recipe(
        stoker.augment.RandomResizedCrop(32),
        stoker.augment.HorizontalFlip(),
        stoker.augment.ColorJitter(0.4, 0.4, 0.4, 0.1),
        stoker.augment.Normalize(),
    )
    on_host = list(stoker.Loader(pack, 8, shuffle=True, augment=recipe))
    on_device = list(stoker.Loader(pack, 8, shuffle=True, augment=augment, device="cuda"))
    assert ran == [(True, False, True)] * len(on_host)  # pixels there, the index here
    for one, other in zip(on_host, on_device, strict=True):
        assert other["image"].is_cuda and other["index"].is_cuda
        assert torch.equal(one["label"], other["label"].cpu())
        # Two resizers of at most one grey level apart, then changes that may double it.
        assert (one["image"] - other["image"].cpu()).abs().max() < 6 / 255 / 0.225


def test_batches_are_filled_in_pinned_memory_and_copied_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged: list[int] = []
    pin = torch.Tensor.pin_memory

    def counted(tensor: torch.Tensor) -> torch.Tensor:
        staged.append(tensor.numel())
        return pin(tensor)

    monkeypatch.setattr(torch.Tensor, "pin_memory", counted)
    images = np.random.default_rng(0).integers(0, 256, (COUNT, 40, 40, 3), np.uint8)
    pack = write_arrays(tmp_path / "p", {"image": images})
    work = torch.rand(2048, 2048, device="cuda")
    for batch in stoker.Loader(pack, 8, shuffle=True, device="cuda"):
        work = work @ work / 2048  # the device is behind, and blocks are written to again
        found = batch["image"].permute(0, 2, 3, 1).cpu().numpy()
        assert np.array_equal(found, images[batch["index"].tolist()])
    assert staged == []


def test_what_augment_made_is_whole_while_the_model_is_busy(tmp_path: Path) -> None:
    values = np.arange(COUNT, dtype=np.uint8)
    images = np.broadcast_to(values[:, None, None, None], (COUNT, 64, 64, 3)).copy()
    pack = write_arrays(tmp_path / "p", {"image": images})

    def augment(batch: Batch, *, seed: int, epoch: int) -> dict[str, torch.Tensor]:
        doubled = batch.image.float()
        for _ in range(20):  # kernels that the loop would overtake if it did not wait for them
            doubled = doubled + batch.image.float() / 20
        return {"image": doubled}

    work = torch.rand(2048, 2048, device="cuda")
    means = []
    for batch in stoker.Loader(pack, 1, augment=augment, device="cuda"):
        work = work @ work / 2048
        means.append(batch["image"].mean())
    assert torch.stack(means).tolist() == pytest.approx([2.0 * value for value in values.tolist()])
