"""A Dataset's transforms cut by experiment: once, in every epoch, on the device. No libraries."""

from __future__ import annotations

from stoker.split.cut import Cut, cut_at, find_cut, is_equal, name_of, seed_all
from stoker.split.digest import digest
from stoker.split.generators import Generators
from stoker.split.row import (
    Chain,
    Recorder,
    Row,
    copied,
    find_row,
    owner_of,
    row_with,
    with_steps,
)
from stoker.split.size import packed_bytes

__all__ = [
    "Chain",
    "Cut",
    "Generators",
    "Recorder",
    "Row",
    "copied",
    "cut_at",
    "digest",
    "find_cut",
    "find_row",
    "is_equal",
    "name_of",
    "owner_of",
    "packed_bytes",
    "row_with",
    "seed_all",
    "with_steps",
]
