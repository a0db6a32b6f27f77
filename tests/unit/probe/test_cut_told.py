"""What single samples tell the doctor: also where their transforms can be cut."""

from __future__ import annotations

import functools
import random
import time
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


class Keeping(Numbers):
    """It keeps the few samples that it made last, before a flip in its own body."""

    def __init__(self) -> None:
        super().__init__()
        self.load = functools.lru_cache(maxsize=4)(self._load)

    def __len__(self) -> int:
        return 400

    def _load(self, index: int) -> Any:
        end = time.thread_time() + 0.01
        while time.thread_time() < end:
            pass
        return np.arange(500) + index

    def __getitem__(self, index: int) -> Any:
        found = self.load(index)
        return found[::-1].copy() if random.random() < 0.5 else found


def twin_line(loader: Any, folder: Path) -> dict[str, Any]:
    """What single samples of the loader tell, whose first batch was made in this process."""
    (folder / OPTIONS_FILE).write_text("{}")
    before = random.getstate(), torch.get_rng_state()
    first = next(iter(loader))
    random.setstate(before[0])
    torch.set_rng_state(before[1])
    Rehearsal(loader, Session(folder), first, served=1).once(2.0)
    assert random.getstate() == before[0]
    assert torch.equal(torch.get_rng_state(), before[1])
    (file,) = folder.glob("trainer-*.jsonl")
    (line,) = [one for one in read_lines(file)[0] if one["kind"] == "twin"]
    return line


def test_what_a_data_set_has_kept_is_not_taken_for_what_a_sample_costs(tmp_path: Path) -> None:
    torch.manual_seed(3)
    loader = torch.utils.data.DataLoader(Keeping(), batch_size=4, shuffle=True)
    line = twin_line(loader, tmp_path)
    assert line["is_kept"]
    assert line["plain_s"] > 0.009
    assert line["random_share"] < 0.2


def test_without_batches_what_the_sampler_gives_is_a_key_as_it_stands(tmp_path: Path) -> None:
    class Whole(Numbers):
        def __getitem__(self, keys: Any) -> Any:
            return np.array([len(keys)])

    sampler = torch.utils.data.BatchSampler(range(12), 4, drop_last=True)
    loader = torch.utils.data.DataLoader(Whole(), batch_size=None, sampler=sampler)
    assert twin_line(loader, tmp_path)["random_op"] is None


def test_the_twin_line_names_the_cut_and_leaves_the_random_numbers(tmp_path: Path) -> None:
    line = twin_line(torch.utils.data.DataLoader(Numbers(), batch_size=4), tmp_path)
    assert line["random_op"] == "shifted"
    assert line["cut"] == "packed once: squared | in every epoch: shifted"
    assert line["packed_bytes"] == np.arange(5).nbytes
