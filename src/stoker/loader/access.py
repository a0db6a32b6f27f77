"""By which way a pack is read: memory maps for what is cached, reads for what is not.

Asked again at every epoch: what was cold is cached once it was read, and may be evicted again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Literal

from stoker.loader import residency
from stoker.pack import Pack, descriptors, layout

Reading = Literal["mmap", "preadv"]


class Access:
    """How fields of a pack are read now; whoever reads looks at `reading` each time."""

    def __init__(self, pack: Pack, names: Sequence[str], wanted: Reading | None = None) -> None:
        """`wanted`: always that way, and nothing is looked at."""
        self._is_given = wanted is not None
        self._files = [] if self._is_given else _files(pack, names)
        self.reading: Reading = wanted or self._found()

    def look_again(self) -> None:
        """Choose anew by what is cached now. Fills under way may go either way."""
        if not self._is_given:
            with contextlib.suppress(OSError):  # gone since: who reads it says so
                self.reading = self._found()

    def _found(self) -> Reading:
        share = residency.cached_share(self._files)
        is_cached = share is not None and share >= residency.WARM
        # A map keeps its file open.
        return "mmap" if is_cached and descriptors.may_hold(len(self._files)) else "preadv"


def _files(pack: Pack, names: Sequence[str]) -> list[tuple[str, int]]:
    """The files with the fields' bytes, and their sizes."""
    sizes = {file.name: file.size for shard in pack.shards for file in shard.files}
    found = []
    for name in names:
        is_fixed = pack.field(name).is_fixed
        for shard in pack.shards:
            file = layout.files_of(shard.stem, name, is_fixed=is_fixed)[0]
            found.append((str(pack.path / file), sizes[file]))
    return found
