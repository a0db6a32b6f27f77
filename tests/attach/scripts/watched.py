"""Batches of 20 ms, a step of 10 ms; argument: what gives the batches."""

import queue
import sys
import threading
import time

import numpy as np

import stoker

LOAD_S, STEP_S = 0.020, 0.010


def batches():
    for number in range(5000):
        time.sleep(LOAD_S)
        yield {"x": np.full((8, 16), number, np.float32)}


class Again:
    """Can be iterated anew; its batches are made when asked for."""

    def __iter__(self):
        return batches()


class Ahead:
    """A thread makes them ahead, four at the most."""

    def __iter__(self):
        ready = queue.Queue(4)

        def run():
            for batch in batches():
                ready.put(batch)

        threading.Thread(target=run, daemon=True).start()
        while True:
            yield ready.get()


def wrapped():
    """Another loader inside, as WebDataset has: it is part of what is watched."""
    from torch.utils.data import DataLoader

    yield from DataLoader(list(batches_of(200)), batch_size=None, collate_fn=slowly)


def batches_of(count):
    return ({"x": np.full((8, 16), number, np.float32)} for number in range(count))


def slowly(batch):
    time.sleep(LOAD_S)
    return batch


SOURCES = {"generator": batches, "again": Again, "ahead": Ahead, "wrapped": wrapped}

if __name__ == "__main__":
    for _ in range(20):
        for batch in stoker.watch(SOURCES[sys.argv[1]]()):
            assert batch["x"].shape == (8, 16)
            time.sleep(STEP_S)
