"""Claim: however loops over the Loader end, nothing is left: no memory, file, thread or hang.

Epochs, loops that are left or stop, failing transforms, damaged packs, killed worker processes,
abandoned feeds and Ctrl-C in a process of its own, in turn; by Loaders that are made anew, and by
some that live through all of it. `python -m benchmarks.endurance [--minutes 30]`
"""

from __future__ import annotations

import argparse
import gc
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
import torch

import stoker
from benchmarks import record
from benchmarks.contenders import measure
from stoker.errors import CorruptShardError, LoaderError, StokerError
from stoker.pack import write_arrays

CLAIM = (
    "Nothing grows while loops over the Loader end in every way they can, and a loop that stops is "
    "loaded ahead of only as far as memory_bytes allows."
)
# The allocator and Python's own caches settle within the first rounds; a leak of one batch of this
# size (3 MB) a round is far above the rest.
SETTLING_ROUNDS = 3
ALLOWED_BYTES = 40e6
SAMPLES, BATCH, CROP = 600, 64, 128
# A whole round takes a second or two; what takes this long hangs.
PATIENCE_S = 60.0
THREAD_GRACE_S = 5.0
# A loop that stops for so long has all made ahead that ever will be: batches of 3 MB, of an epoch
# of 600 MB. Beside the budget it has two batches itself, and the process some memory of its own.
STOP_S = 0.5
BUDGET_BYTES = 25_000_000
OWN_BYTES = 12_000_000
STOPPED_EPOCHS = 20
# Of packs that are damaged: a batch of 3 MB, and failed passes of one Loader, each round.
KEPT_SAMPLES, KEPT_BATCH, KEPT_BYTES = 256, 32, 100_000
FAILED_PASSES = 5

# Runs until it is interrupted, and then has to end by itself.
INTERRUPTED = """\
import signal, sys, stoker
# Below a background job of a shell it would be ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
loader = stoker.Loader(sys.argv[1], 8, shuffle=True, crop=64)
print("running", flush=True)
while True:
    for batch in stoker.feed(loader):
        pass
"""
# Loses a worker process, and has to say so.
BEREFT = """\
import os, signal, stoker
class Deadly:
    def __len__(self): return 64
    def __getitem__(self, index):
        if index == 40: os.kill(os.getpid(), signal.SIGKILL)
        return index
for batch in stoker.DataLoader(Deadly(), 8, num_workers=2, mode="processes"):
    pass
"""


class Held(NamedTuple):
    """What the process holds at one moment."""

    memory_bytes: int
    files: int
    threads: int
    children: int
    shared: int

    @classmethod
    def now(cls) -> Held:
        """After a collection, and a moment for threads that were told to end."""
        gc.collect()
        for thread in threading.enumerate():
            if thread.name.startswith("stoker"):
                thread.join(THREAD_GRACE_S)
        process = psutil.Process()
        return cls(
            process.memory_info().rss,
            process.num_fds(),
            threading.active_count(),
            len(process.children()),
            # Of Python's and torch's shared memory; the rest of the folder is other programs'.
            sum(path.name.startswith(("psm_", "torch_")) for path in Path("/dev/shm").iterdir()),
        )


class Numbers:
    """A data set for worker processes."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> Any:
        return np.full((CROP, CROP), index, np.int16)


class Failing:
    """A data set that raises at every sample."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> Any:
        raise KeyError(index)


def deadly(batch: Any, *, seed: int, epoch: int) -> Any:
    """An augmentation whose process is killed at the third batch of epoch 1."""
    if epoch == 1 and 2 * BATCH in batch["index"]:
        os.kill(os.getpid(), signal.SIGKILL)
    return {**batch, "seed": seed}


def whole_epoch(folder: Path) -> None:
    """All batches, some of them kept for a while."""
    kept = list(stoker.Loader(folder, BATCH, shuffle=True, crop=CROP))
    assert sum(len(batch["index"]) for batch in kept) == SAMPLES


def left_loop(folder: Path) -> None:
    """A loop that ends at its third batch, through a feed too."""
    loader = stoker.Loader(folder, BATCH, shuffle=True, crop=CROP)
    for batches in (loader, stoker.feed(loader)):
        for number, _ in enumerate(batches):
            if number == 2:
                break


def failing_augment(folder: Path) -> None:
    """An augmentation that raises."""

    def augment(batch: Any, *, seed: int, epoch: int) -> Any:
        raise ArithmeticError(f"{seed} {epoch} {len(batch)}")

    _expect(ArithmeticError, stoker.Loader(folder, BATCH, crop=CROP, augment=augment))


def failing_data_set(_: Path) -> None:
    """A data set that raises in a thread."""
    _expect(KeyError, stoker.DataLoader(Failing(), batch_size=8, num_workers=2, mode="threads"))


def worker_processes(_: Path) -> None:
    """Worker processes: an epoch whose batches are kept, a loop that is left, a failing one."""
    settings = {"batch_size": BATCH, "num_workers": 2, "mode": "processes"}
    kept = list(stoker.DataLoader(Numbers(), **settings))
    assert sum(len(batch) for batch in kept) == SAMPLES
    for number, _batch in enumerate(stoker.DataLoader(Numbers(), **settings)):
        if number == 2:
            break
    _expect(KeyError, stoker.DataLoader(Failing(), **settings))


def killed_worker(folder: Path) -> None:
    """A worker process that is gone all at once, in a process of its own.

    torch tells of it from a signal handler, wherever the main thread is at that moment.
    """
    with _started(BEREFT, folder) as child:
        _, said = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 1 and "Error" in said, said


def stopped_loop(folder: Path) -> None:
    """A loop that stops at its second batch: what is made ahead stays within the budget."""
    gc.collect()
    before = measure.memory_bytes()  # mapped files are the page cache's
    order = list(range(SAMPLES)) * STOPPED_EPOCHS
    loader = stoker.Loader(folder, BATCH, sampler=order, crop=CROP, memory_bytes=BUDGET_BYTES)
    running = iter(loader)
    kept = [next(running), next(running)]
    time.sleep(STOP_S)
    grown = measure.memory_bytes() - before
    assert grown <= BUDGET_BYTES + OWN_BYTES, f"{grown:,} bytes more, {len(kept)} batches kept"
    next(running)
    assert loader.stats().held_bytes <= BUDGET_BYTES


class Kept:
    """Loaders that live through all rounds, each for one ending: what it left would add up."""

    def __init__(self, folder: Path, own: Path) -> None:
        pack = write_arrays(own, {"x": np.zeros((KEPT_SAMPLES, KEPT_BYTES), np.uint8)})
        self._file = next(pack.path.glob("*.npy"))
        self._bytes = self._file.read_bytes()
        self._damaged = stoker.Loader(pack, KEPT_BATCH, reading="preadv", watchdog_s=PATIENCE_S)
        self._left = stoker.Loader(folder, BATCH, shuffle=True, crop=CROP)
        self._killed = stoker.Loader(folder, BATCH, crop=CROP, augment=deadly, workers=2)

    def damaged_pack(self, _: Path) -> None:
        """Passes that fail at the end of a cut-off shard; mended, it can be read again."""
        os.truncate(self._file, len(self._bytes) // 2)
        for _pass in range(FAILED_PASSES):
            _expect(CorruptShardError, self._damaged)
        self._file.write_bytes(self._bytes)
        kept = list(self._damaged)
        assert sum(len(batch["index"]) for batch in kept) == KEPT_SAMPLES

    def left_loop(self, _: Path) -> None:
        """A loop that ends at its third batch."""
        for number, _batch in enumerate(self._left):
            if number == 2:
                break

    def killed_augment(self, _: Path) -> None:
        """An epoch, and one whose augmentation is killed; the next has new workers."""
        self._killed.set_epoch(0)
        assert sum(len(batch["index"]) for batch in self._killed) == SAMPLES
        self._killed.set_epoch(1)
        _expect(LoaderError, self._killed)


def cut_off_pack(folder: Path) -> None:
    """A shard that loses its end while it is read."""
    with tempfile.TemporaryDirectory() as made:
        pack = write_arrays(Path(made) / "p", {"x": np.zeros((64, 1000), np.uint8)})
        loader = stoker.Loader(pack, 8, reading="preadv")
        file = next(pack.path.glob("*.npy"))
        os.truncate(file, file.stat().st_size // 2)
        _expect(StokerError, loader)
    assert folder.exists()


def interrupted(folder: Path) -> None:
    """Ctrl-C in the middle of a loop: KeyboardInterrupt, and an end within seconds."""
    with _started(INTERRUPTED, folder) as child:
        assert child.stdout is not None
        child.stdout.readline()
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=PATIENCE_S)
    assert child.returncode in (1, -signal.SIGINT, 130), said
    assert "KeyboardInterrupt" in said, said


ENDINGS: tuple[Callable[[Path], None], ...] = (
    whole_epoch,
    left_loop,
    failing_augment,
    failing_data_set,
    worker_processes,
    killed_worker,
    cut_off_pack,
    stopped_loop,
    interrupted,
)


@contextmanager
def _started(script: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """The script in a process of its own, which is gone in the end."""
    command = [sys.executable, "-c", script, str(folder)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as child:
        try:
            yield child
        finally:
            child.kill()


def _expect(kind: type[Exception], batches: Any) -> None:
    try:
        for _ in batches:
            pass
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was not raised")


def endure(seconds: float) -> tuple[int, Held, Held]:
    """Rounds of all endings for so long; how many, what was held once settled, and at the end."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "pack"
        images = np.random.default_rng(0).integers(0, 256, (SAMPLES, 160, 160, 3), np.uint8)
        write_arrays(folder, {"image": images, "label": np.arange(SAMPLES)})
        kept = Kept(folder, Path(made) / "damaged")
        endings = (*ENDINGS, kept.damaged_pack, kept.left_loop, kept.killed_augment)
        rounds, settled, began = 0, Held.now(), time.monotonic()
        while rounds <= SETTLING_ROUNDS or time.monotonic() - began < seconds:
            for ending in endings:
                ending(folder)
            rounds += 1
            if rounds == SETTLING_ROUNDS:
                settled = Held.now()
        return rounds, settled, Held.now()


def main() -> int:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description="Let loops end in every way, for a long time.")
    parser.add_argument("--minutes", type=float, default=30.0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    rounds, settled, ended = endure(args.minutes * 60)
    rows, numbers, passed = {}, {}, {}
    for name, before, after in zip(Held._fields, settled, ended, strict=True):
        rows[name] = (name.replace("_", " "), f"{before:,}", f"{after:,}", f"{rounds:,}")
        numbers[name] = {"before": before, "after": after, "rounds": rounds}
        passed[name] = after - before <= (ALLOWED_BYTES if name == "memory_bytes" else 0)
    held = record.write(
        "endurance",
        claim=CLAIM,
        columns=("held", "once settled", "at the end", "rounds"),
        rows=rows,
        numbers=numbers,
        passed=passed,
    )
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
