"""Savers that only note: nothing reaches the disk, buffers still work, all is put back."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from stoker.probe.hooks import savers


class AlreadyImported:
    """An import watch in a process where the libraries are there already."""

    def after(self, name: str, callback: Callable[[ModuleType], None]) -> None:
        module = {"torch": torch, "torch.jit": torch.jit, "numpy": np}.get(name)
        if module is not None:
            callback(module)


class Noted:
    """Keeps the paths."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def write(self, kind: str, **fields: Any) -> None:
        assert kind == "would-write"
        self.paths.append(fields["path"])


@pytest.fixture
def noted() -> Iterator[Noted]:
    notes = Noted()
    before = (torch.save, torch.jit.save, np.save, np.savez)
    restore = savers.install(AlreadyImported(), notes)
    assert torch.save is not before[0]
    yield notes
    restore()
    assert (torch.save, torch.jit.save, np.save, np.savez) == before


def test_a_checkpoint_is_noted_and_the_old_one_stays(noted: Noted, tmp_path: Path) -> None:
    path = tmp_path / "best.pt"
    path.write_text("the old one")
    torch.save({"weight": torch.zeros(3)}, path)
    torch.save({"weight": torch.zeros(3)}, f=str(path))
    assert path.read_text() == "the old one"
    assert noted.paths == [str(path), str(path)]


def test_arrays_are_noted_under_any_saver(noted: Noted, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(2))
    np.savez(str(tmp_path / "b.npz"), x=np.zeros(2))
    assert list(tmp_path.iterdir()) == []
    assert noted.paths == [str(tmp_path / "a.npy"), str(tmp_path / "b.npz")]


def test_an_open_file_counts_as_its_path(noted: Noted, tmp_path: Path) -> None:
    with (tmp_path / "open.pt").open("wb") as file:
        torch.save([1], file)
    assert noted.paths == [str(tmp_path / "open.pt")]
    assert (tmp_path / "open.pt").stat().st_size == 0


def test_a_buffer_in_memory_is_still_written(noted: Noted) -> None:
    buffer = io.BytesIO()
    torch.save({"x": 1}, buffer)
    buffer.seek(0)
    assert torch.load(buffer) == {"x": 1}
    assert noted.paths == []


def test_trackers_without_a_switch_write_into_the_folder_given(tmp_path: Path) -> None:
    environment = savers.trackers_off(tmp_path)
    assert environment.items() >= savers.TRACKERS_OFF.items()
    assert environment["MLFLOW_TRACKING_URI"] == f"file://{tmp_path}/mlruns"
