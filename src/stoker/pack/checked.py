"""Whether files of a shard can be what was written, before their numbers are relied on.

Sizes are compared when a pack is opened, checksums by `stoker verify`. In between, a wild header or
offset must end in an error that names the file, and in no wrong sample.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stoker.errors import CorruptShardError
from stoker.pack import layout
from stoker.pack.manifest import Manifest, Shard
from stoker.pack.repair import way_to_repair


class Checked(NamedTuple):
    """A shard of a pack whose files are looked at. All methods raise CorruptShardError."""

    folder: Path
    found: Manifest
    shard: Shard

    def header(self, file: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        """The header is the one that is written for this type and shape."""
        with (self.folder / file).open("rb", buffering=0) as opened:
            if opened.read(layout.HEADER_BYTES) != layout.header(dtype, shape):
                raise self._damaged(file, f"its header is not that of {dtype} {shape}")

    def rows_header(self, file: str, dtype: np.dtype[Any]) -> None:
        """The same of a table with a row a sample, whose width follows from the file's size."""
        size = (self.folder / file).stat().st_size - layout.HEADER_BYTES
        self.header(file, dtype, (self.shard.count, size // (self.shard.count * dtype.itemsize)))

    def offsets(self, file: str, offsets: NDArray[np.uint64], of: str) -> None:
        """They begin at 0, ascend, and end where the file that they are of does."""
        size = (self.folder / of).stat().st_size
        ascend = bool((offsets[1:] >= offsets[:-1]).all())
        if not ascend or int(offsets[0]) != 0 or int(offsets[-1]) != size:
            raise self._damaged(file, f"its offsets do not run from 0 up to the {size:,} B of {of}")

    def shapes(
        self, file: str, shapes: NDArray[np.int32], offsets: NDArray[np.uint64], width: int
    ) -> None:
        """Arrays of these shapes, of numbers of so many bytes, have the bytes that they have."""
        numbers = shapes.astype(np.int64).prod(axis=1)
        taken = np.diff(offsets).astype(np.int64)
        if (shapes < 0).any() or (numbers * width != taken).any():
            raise self._damaged(file, "its shapes are not those of the bytes of the samples")

    def _damaged(self, file: str, what: str) -> CorruptShardError:
        return CorruptShardError(
            f"{self.folder / file} was changed after it was written: {what}",
            looked_at=f"shard {self.shard.number}, samples {self.shard.start} to "
            f"{self.shard.start + self.shard.count - 1}",
            run_next=f"stoker verify {self.folder} lists all damage; "
            f"{way_to_repair(self.folder, self.found)}",
        )
