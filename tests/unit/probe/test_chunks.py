"""Rows that a slice of a chunked array has unpacked, beside those that were asked for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from stoker.probe.hooks.chunks import ZARR_ROWS, _Cached


def zarr_array(rows: int = 1000, per_chunk: int = 100) -> Any:
    return SimpleNamespace(shape=(rows, 8), chunks=(per_chunk, 8))


@pytest.mark.parametrize(
    ("index", "unpacked", "asked_for"),
    [
        (5, 100, 1),
        (-1, 100, 1),
        ((5, slice(2, 4)), 100, 1),
        (slice(0, 100), 100, 100),
        (slice(90, 110), 200, 20),
        (slice(None), 1000, 1000),
        (slice(0, 1000, 250), 400, 4),  # every chunk between is left out
        (slice(110, 90, -1), 200, 20),
        (slice(5, 5), 0, 0),
        ([1, 500], 0, 0),  # no row and no slice: not counted
        ("name", 0, 0),
        (..., 0, 0),
    ],
)
def test_whole_chunks_are_unpacked(index: Any, unpacked: int, asked_for: int) -> None:
    assert ZARR_ROWS.counting((zarr_array(), index), None) == (unpacked, asked_for)


def test_the_last_chunk_may_be_shorter() -> None:
    assert ZARR_ROWS.counting((zarr_array(rows=950), 940), None) == (50, 1)


def hdf5(*, cache: int, handle: int = 7, rows: int = 10_000, chunked: bool = True) -> Any:
    """A data set of rows of 1 kB in chunks of a hundred, as far as it is asked."""
    access = SimpleNamespace(get_chunk_cache=lambda: (521, cache, 0.75))
    return SimpleNamespace(
        shape=(rows, 1000),
        chunks=(100, 1000) if chunked else None,
        nbytes=rows * 1000,
        dtype=SimpleNamespace(itemsize=1),
        id=SimpleNamespace(id=handle, get_access_plist=lambda: access),
    )


def rows_of(dataset: Any, *indices: Any) -> list[tuple[int, int]]:
    counting = _Cached()
    return [counting.count((dataset, index), None) for index in indices]


def test_a_chunk_that_the_cache_holds_is_unpacked_once_while_it_is_read_on() -> None:
    found = rows_of(hdf5(cache=1_000_000), 5, 6, slice(7, 150), 160, 5)
    assert found == [(100, 1), (0, 1), (100, 143), (0, 1), (100, 1)]


def test_a_chunk_that_the_cache_cannot_hold_is_unpacked_each_time() -> None:
    assert rows_of(hdf5(cache=50_000), 5, 6) == [(100, 1), (100, 1)]


def test_of_data_sets_that_may_be_in_the_cache_nothing_is_said() -> None:
    assert rows_of(hdf5(cache=4_000_000), 5) == [(0, 0)]
    assert rows_of(hdf5(cache=0, chunked=False), 5) == [(0, 0)]


def test_many_handles_are_not_remembered_for_ever() -> None:
    counting = _Cached()
    for handle in range(1000):
        counting.count((hdf5(cache=0, handle=handle), 5), None)
    assert len(counting._known) <= 64
