"""How the rows of batches are filled from the contents: by what, in which chunks, by how many."""

from __future__ import annotations

import os

from stoker.loader import draws
from stoker.loader.activity import Activity
from stoker.loader.contents import Contents
from stoker.loader.engine import Fill
from stoker.loader.order import Indices
from stoker.loader.pace import Limits, Pace
from stoker.loader.packed import Rows
from stoker.loader.slots import Fields

# Two batches ready and two under way ride out what one slow batch costs; more helps only where
# batches differ in cost, and is found out while running.
_DEPTH = 4
# Samples that a thread takes at once. A gathered one costs 15 µs and taking a chunk some 5 µs; a
# decoded one costs 1 ms, and a batch shall not wait for one thread with many of them.
_CHUNK_GATHERED = 256
_CHUNK_READ = 16
_CHUNK_DECODED = 8
# Reads wait: 4 threads give 4,487 records of 197 kB a second, 16 give 5,300, one 2,592.
_READ_THREADS = 4
_MOST_READ_THREADS = 16


def filler(contents: Contents, seed: int, epoch: int) -> Fill:
    """Fills rows of all columns; no reference to the loader, which may be forgotten meanwhile."""

    def fill(samples: Indices, out: Fields, activity: Activity) -> None:
        rows = Rows(samples, draws.sample_keys(seed, epoch, samples), activity)
        out["index"][:] = samples
        for column in contents.columns:
            column.fill(rows, out[column.field.name])

    return fill


def pace_of(contents: Contents, threads: int | None, most_depth: int) -> Pace:
    """Threads and depth to begin with, and up to which, for the way that samples are read now."""
    cores = len(os.sched_getaffinity(0))
    first, most = 1, cores
    if contents.is_decoded:
        first = cores
    elif contents.reading == "preadv":
        first, most = _READ_THREADS, _MOST_READ_THREADS
    if threads is not None:
        first = most = threads
    return Pace(Limits(first, most, min(_DEPTH, most_depth), most_depth))


def chunk_of(contents: Contents) -> int:
    """Samples that a thread takes at once."""
    if contents.is_decoded:
        return _CHUNK_DECODED
    return _CHUNK_READ if contents.reading == "preadv" else _CHUNK_GATHERED
