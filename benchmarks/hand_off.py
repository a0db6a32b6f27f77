"""What handing a collated batch from a worker to the training process costs, in bytes a second.

Two numbers that the zoo's links `worker-copy` and `hand-off` hold: what one worker writes into
shared memory (collate, page faults and all), and what one training process takes out of it when
it copies every batch into a buffer of its own, as pinning does. Prints JSON.

    python benchmarks/hand_off.py
"""

from __future__ import annotations

import json
import platform
import statistics
import time

import torch
from torch.utils.data import DataLoader, Dataset

BATCH = 64
SHAPE = (3, 224, 224)
# Batches that workers made before the clock was started are not measured.
WARM_UP = 12
BATCHES = 60


class Ready(Dataset[torch.Tensor]):
    """Samples that cost nothing: what remains is the hand-off."""

    def __init__(self, length: int) -> None:
        self._sample = torch.zeros(SHAPE)
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> torch.Tensor:
        return self._sample


def worker_bytes_per_s() -> float:
    """One worker, drained without looking at the batches: the worker's own pace."""
    length = BATCH * (WARM_UP + BATCHES)
    batches = iter(DataLoader(Ready(length), batch_size=BATCH, num_workers=1))
    for _ in range(WARM_UP):
        next(batches)
    start = time.perf_counter()
    taken = sum(batch.nbytes for batch in batches)
    return taken / (time.perf_counter() - start)


def training_bytes_per_s() -> float:
    """Copies of batches that are already there: the training process' own pace."""
    length = BATCH * WARM_UP
    loader = DataLoader(Ready(length), batch_size=BATCH, num_workers=1, prefetch_factor=WARM_UP)
    own = torch.empty((BATCH, *SHAPE))
    batches = iter(loader)
    time.sleep(2.0)  # long enough for the worker to finish every batch of the epoch
    seconds = []
    for _ in range(WARM_UP):
        start = time.perf_counter()
        batch = next(batches)
        own.copy_(batch)
        del batch
        seconds.append(time.perf_counter() - start)
    return own.nbytes / statistics.median(seconds)


def main() -> None:
    """Measure three times and print the medians."""
    torch.set_num_threads(1)
    worker = [worker_bytes_per_s() for _ in range(3)]
    training = [training_bytes_per_s() for _ in range(3)]
    print(
        json.dumps(
            {
                "machine": platform.processor() or platform.machine(),
                "torch": torch.__version__,
                "worker_copy_bytes_per_s": statistics.median(worker),
                "hand_off_bytes_per_s": statistics.median(training),
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
