"""Single batches timed in real workers, those of leg L's loader."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from stoker.probe.rehearsal import Rehearsal
from stoker.probe.session import Session
from stoker.probe.stage_lines import batch_seconds, worker_lines

SLOW_S, USUAL_S = 0.06, 0.004


class Uneven(Dataset[torch.Tensor]):
    """Samples of 4 ms; every twentieth takes 60."""

    def __len__(self) -> int:
        return 4000

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(SLOW_S if index % 20 == 7 else USUAL_S)
        return torch.zeros(4)


class Stream(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Any:
        while True:
            time.sleep(USUAL_S)
            yield torch.zeros(4)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    (tmp_path / "options.json").write_text(json.dumps({"budget_s": 1.0}))
    return Session(tmp_path)


def drained(session: Session, loader: DataLoader[Any], **beside: Any) -> list[float]:
    rehearsal = Rehearsal(loader, session, torch.zeros(2, 4), served=1, **beside)
    try:
        assert rehearsal.drain("L", 2, batches=40, limit_s=1.0)
        assert rehearsal.drain("L", 3, batches=9, limit_s=0.1)
    finally:
        rehearsal.close()
    return batch_seconds(session.folder, os.getpid(), 2)


def test_each_batch_is_told_as_long_as_it_took_and_in_its_place(session: Session) -> None:
    """Two samples a batch, one batch in ten with a slow one among them."""
    seconds = drained(session, DataLoader(Uneven(), batch_size=2, num_workers=2))
    assert len(seconds) >= 20
    slow = [place for place, each in enumerate(seconds) if each > SLOW_S]
    assert slow
    assert all((place - slow[0]) % 10 == 0 for place in slow)
    usual = [each for each in seconds if each <= SLOW_S]
    assert min(usual) >= 2 * USUAL_S
    assert sum(usual) / len(usual) == pytest.approx(2 * USUAL_S, rel=0.5)


def test_batches_of_a_stream_are_told_too(session: Session) -> None:
    seconds = drained(session, DataLoader(Stream(), batch_size=2, num_workers=2))
    assert len(seconds) >= 20
    assert min(seconds) >= 2 * USUAL_S


def test_loaders_that_give_their_batches_together_are_not_timed(session: Session) -> None:
    loader = DataLoader(Uneven(), batch_size=2, num_workers=2)
    assert drained(session, loader, beside=[loader]) == []


def test_only_the_loader_of_leg_l_is_timed(session: Session) -> None:
    drained(session, DataLoader(Uneven(), batch_size=2, num_workers=2))
    timed = [line for line in worker_lines(session.folder, os.getpid()) if "seconds" in line]
    assert {line["workers"] for line in timed} == {2}
