"""The batches that are served in place of the loader's: K of them, in rotation.

Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stoker.probe.snapshot import Snapshot, is_of_samples, samples_in, size_of

_MOST = 8  # K of the device and host legs
_MOST_BYTES = 1 << 30  # of memory that they may take
# Of a single sample a batch norm can't take the mean.
_LEAST_HALF = 2


def half_of(samples: int) -> int:
    """Samples of the smaller batches of leg F."""
    return samples // 2


class KeptBatches:
    """Snapshots of the first batches, on the host and, where there is one, on the device."""

    def __init__(self) -> None:
        self._on_host: list[Snapshot] = []
        self._on_device: list[Snapshot] = []
        self._given = 0
        self.facts: dict[str, Any] = {}  # bytes, objects and samples of the first one

    def __len__(self) -> int:
        return len(self._on_host)

    @property
    def is_full(self) -> bool:
        """True when no more are wanted."""
        return len(self._on_host) >= _MOST

    @property
    def first(self) -> Any:
        """The first one, untouched."""
        return self._on_host[0].source

    def keep(self, batch: Any, place: Callable[[Any], Any] | None) -> bool:
        """Copy a batch; False for the last, partial one of an epoch, and for one too many."""
        samples = samples_in(batch)
        size, objects = size_of(batch)
        if not self._on_host:
            self.facts = {"bytes": size, "objects": objects, "samples": samples}
        elif samples != self.facts["samples"] or (len(self) + 1) * size > _MOST_BYTES:
            return False
        snapshot = Snapshot(batch)
        self._on_host.append(snapshot)
        if place is not None:
            self._on_device.append(Snapshot(snapshot.source, place))
        return True

    def has_halves_of(self, batch_size: int | None) -> bool:
        """True where the first half of each batch is a batch, too, of the same parts.

        Only where all of it is of as many samples as the loader says: what is not could be of
        something else, or tell a number of samples that would no longer be true.
        """
        if not batch_size or half_of(batch_size) < _LEAST_HALF:
            return False
        return bool(self) and all(is_of_samples(one.source, batch_size) for one in self._on_host)

    def hand_out(self, *, on_device: bool = False, halved: bool = False) -> Any:
        """The next one in rotation, with its first content; the first half of it if asked for."""
        kept = self._on_device if on_device else self._on_host
        self._given += 1
        first = half_of(self.facts["samples"]) if halved else None
        return kept[self._given % len(kept)].hand_out(first)
