"""The thread that augments and copies for a Loader: watched, and counted in its stats."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker
from stoker.errors import LoaderError
from stoker.pack import Pack, write_arrays

COUNT = 90


@pytest.fixture
def pack(tmp_path: Path) -> Pack:
    return write_arrays(tmp_path / "pack", {"image": np.zeros((COUNT, 12, 12, 3), np.uint8)})


def test_an_augment_that_hangs_is_named_with_its_line(pack: Pack) -> None:
    go_on = threading.Event()

    def augment(batch: Any, *, seed: int, epoch: int) -> Any:
        if 20 in batch["index"]:
            go_on.wait(20.0)  # longer than the watchdog's time
        return batch

    running = iter(stoker.Loader(pack, 10, augment=augment, watchdog_s=1.0))
    assert [next(running)["index"][0].item() for _ in range(2)] == [0, 10]
    with pytest.raises(LoaderError, match=r"stage 'augment', sample 20 has taken") as stuck:
        next(running)
    assert "go_on.wait" in stuck.value.looked_at
    go_on.set()
    assert list(running) == []


def test_stats_count_what_the_loop_was_given_and_time_augment_and_copy(pack: Pack) -> None:
    device = stoker.EmulatedAccelerator(0.0, link_bytes_per_s=1e9)
    made = threading.Semaphore(0)

    def augment(batch: Any, *, seed: int, epoch: int) -> Any:
        made.release()
        return batch

    loader = stoker.Loader(pack, 8, rank=1, world_size=2, augment=augment, device=device)
    running = iter(loader)
    next(running)
    for _ in range(3):  # the loop's, and the two ahead of it
        assert made.acquire(timeout=5.0)
    stats = loader.stats()
    assert (stats.batches, stats.samples) == (1, 8)
    assert len(list(running)) == 5
    stats = loader.stats()
    assert (stats.batches, stats.samples) == (6, COUNT // 2)
    assert {"gather", "augment", "copy"} <= set(stats.stage_s)
    assert all(spent_s > 0 for spent_s in stats.stage_s.values())


def test_the_wait_of_the_thread_that_augments_is_counted_too(pack: Pack) -> None:
    # All batches fit ahead, so that the engine's threads never wait for room.
    loader = stoker.Loader(pack, 45, augment=lambda batch, **_: batch)
    running = iter(loader)
    next(running)
    assert len(list(running)) == 1
    engine = running._engine.tally  # type: ignore[attr-defined]
    fed = running._batches.tally  # type: ignore[attr-defined]
    assert loader.stats().put_wait_s == engine.put_wait_s + fed.put_wait_s
    assert fed.put_wait_s > 0
