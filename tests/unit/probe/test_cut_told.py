"""What single samples tell the doctor: also where their transforms can be cut."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stoker.probe.rehearsal import Rehearsal
from stoker.probe.session import OPTIONS_FILE, Session, read_lines

torch = pytest.importorskip("torch")


def squared(value: Any) -> Any:
    return value**2


def shifted(value: Any) -> Any:
    return value + random.randrange(1000)


class Numbers:
    """Arrays through a list of steps."""

    def __init__(self) -> None:
        self.transforms = [squared, shifted]

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> Any:
        value = np.arange(5) + index
        for step in self.transforms:
            value = step(value)
        return value


def test_the_twin_line_names_the_cut_and_leaves_the_random_numbers(tmp_path: Path) -> None:
    (tmp_path / OPTIONS_FILE).write_text("{}")
    loader = torch.utils.data.DataLoader(Numbers(), batch_size=4)
    before = random.getstate()
    rehearsal = Rehearsal(loader, Session(tmp_path), next(iter(loader)), served=1)
    random.setstate(before)
    rehearsal.once(2.0)
    assert random.getstate() == before
    (file,) = tmp_path.glob("trainer-*.jsonl")
    (line,) = [one for one in read_lines(file)[0] if one["kind"] == "twin"]
    assert line["random_op"] == "shifted"
    assert line["cut"] == "packed once: squared | in every epoch: shifted"
    assert line["packed_bytes"] == np.arange(5).nbytes
