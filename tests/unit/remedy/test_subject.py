"""What is known of a loader and its machine before a remedy is judged."""

from __future__ import annotations

import multiprocessing
from typing import Any

import pytest

from stoker.remedy.subject import subject_of, worker_bytes

torch = pytest.importorskip("torch")

GB = 10**9


def loader(workers: int, method: str | None = None) -> Any:
    """That is never iterated: no worker is started."""
    return torch.utils.data.DataLoader([1, 2], num_workers=workers, multiprocessing_context=method)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_worker_is_allowed_the_memory_that_its_start_takes(method: str) -> None:
    assert subject_of(loader(2, method), None).worker_bytes == worker_bytes(method)


@pytest.mark.parametrize(
    ("chosen", "workers", "method"), [("spawn", 2, "spawn"), ("spawn", 0, "fork")]
)
def test_workers_are_started_as_the_script_has_chosen_but_the_first_ones_are_forked(
    monkeypatch: pytest.MonkeyPatch, chosen: str, workers: int, method: str
) -> None:
    monkeypatch.setattr(multiprocessing, "get_start_method", lambda allow_none=False: chosen)
    assert subject_of(loader(workers), None).worker_bytes == worker_bytes(method)


def test_a_script_may_choose_how_workers_are_started_after_it_was_looked_at() -> None:
    before = multiprocessing.get_start_method(allow_none=True)
    subject_of(loader(2), None)
    assert multiprocessing.get_start_method(allow_none=True) == before


def test_a_worker_is_allowed_no_less_than_one_was_seen_to_hold() -> None:
    """Its copy of the data set, for one, where it was started anew."""
    given = loader(2, "spawn")
    assert subject_of(given, None, seen_worker_bytes=9 * GB).worker_bytes == 9 * GB
    assert subject_of(given, None, seen_worker_bytes=1).worker_bytes == worker_bytes("spawn")
