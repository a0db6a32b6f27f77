"""What torch's loaders say of themselves, and torch of what it has compiled."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, SubsetRandomSampler
from torch.utils.data import SequentialSampler as Sequential

from stoker.probe.hooks.torch import TorchView, loader_facts
from stoker.probe.session import Session

TEN = torch.arange(10)


class Stream(IterableDataset[int]):
    def __iter__(self) -> Any:
        return iter(range(10))


@pytest.mark.parametrize(
    ("loader", "is_partial"),
    [
        (DataLoader(TEN, batch_size=4), True),
        (DataLoader(TEN, batch_size=5), False),
        (DataLoader(TEN, batch_size=4, drop_last=True), False),
        (DataLoader(TEN, batch_size=4, sampler=SubsetRandomSampler(range(8))), False),
        (DataLoader(TEN, batch_size=5, sampler=SubsetRandomSampler(range(8))), True),
        pytest.param(
            DataLoader(TEN, batch_sampler=BatchSampler(Sequential(TEN), 4, False)), False, id="own"
        ),
        pytest.param(DataLoader(TEN, batch_size=None), False, id="samples"),
        pytest.param(DataLoader(Stream(), batch_size=4), False, id="stream"),
    ],
)
def test_epochs_that_end_with_a_smaller_batch_are_known(
    loader: DataLoader[Any], is_partial: bool
) -> None:
    assert loader_facts(loader)["ends_partial"] == is_partial


def test_an_order_that_is_not_kept_is_told() -> None:
    assert loader_facts(DataLoader(TEN))["in_order"]
    assert not loader_facts(DataLoader(TEN, num_workers=2, in_order=False))["in_order"]


def test_what_was_traced_counts_as_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "options.json").write_text("{}")
    view = TorchView(Session(tmp_path))
    counters = {"stats": Counter()}
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", SimpleNamespace(counters=counters))
    assert not view.has_compiled()
    counters["frames"] = Counter(total=1)
    assert view.has_compiled()
    monkeypatch.delitem(sys.modules, "torch._dynamo.utils")
    assert not view.has_compiled()
