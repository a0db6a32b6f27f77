"""The data set on disk: decoded or cut once, then read in sequence. Knows no loader or probe."""

from __future__ import annotations

from stoker.pack.arrays import write_arrays
from stoker.pack.manifest import Codec, Field, Role, Shard
from stoker.pack.reader import FileRange, Pack, open_pack
from stoker.pack.served import in_place_of

__all__ = [
    "Codec",
    "Field",
    "FileRange",
    "Pack",
    "Role",
    "Shard",
    "in_place_of",
    "open_pack",
    "write_arrays",
]
