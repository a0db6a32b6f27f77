"""The batches that are served in place of the loader's: K of them, in rotation.

Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean, pstdev
from typing import Any

from stoker.probe.snapshot import Snapshot, Unkeepable, is_of_samples, samples_in, size_of

_MOST = 8  # K of the device and host legs
_MOST_BYTES = 1 << 30  # of memory that they may take
_UNEVEN = 0.02  # batches that differ in size by this share, one standard deviation, are weighed
# Of a single sample a batch norm can't take the mean.
_LEAST_HALF = 2


def half_of(samples: int) -> int:
    """Samples of the smaller batches of leg F."""
    return samples // 2


class KeptBatches:
    """Snapshots of the first batches, on the host and, where there is one, on the device.

    Of batches of unequal sizes, as of sentences or of detection, eight are a poor sample: the step
    on them differs by a tenth from that on all. They are handed out as often as makes their mean
    size that of the batches the loader gave.
    """

    def __init__(self) -> None:
        self._on_host: list[Snapshot] = []
        self._on_device: list[Snapshot] = []
        self._given = 0
        self._sizes: list[int] = []
        self._is_uneven = False  # their sizes
        self._round: list[int] = []  # places to hand out, the next one last
        self._seen = self._seen_bytes = 0
        self.facts: dict[str, Any] = {}  # bytes, objects and samples of the first one
        self.refusal = ""  # why batches of this loader can't be kept

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
        """Copy a batch; False for the last, partial one of an epoch, and for one too many.

        False from then on, with a `refusal`, once a batch can't be handed out a second time.
        """
        if self.refusal:
            return False
        samples = samples_in(batch)
        size, objects = size_of(batch)
        if not self._on_host:
            self.facts = {"bytes": size, "objects": objects, "samples": samples}
        elif samples != self.facts["samples"] or (len(self) + 1) * size > _MOST_BYTES:
            return False
        try:
            snapshot = Snapshot(batch)
            placed = None if place is None else Snapshot(snapshot.source, place)
        except Unkeepable as error:
            self.refusal = str(error)
            return False
        self._on_host.append(snapshot)
        self._sizes.append(size)
        self._is_uneven = pstdev(self._sizes) > _UNEVEN * fmean(self._sizes)
        self._note_size(size)
        if placed is not None:
            self._on_device.append(placed)
        return True

    def has_halves_of(self, batch_size: int | None) -> bool:
        """True where the first half of each batch is a batch, too, of the same parts.

        Only where all of it is of as many samples as the loader says: what is not could be of
        something else, or tell a number of samples that would no longer be true.
        """
        if not batch_size or half_of(batch_size) < _LEAST_HALF:
            return False
        return bool(self) and all(is_of_samples(one.source, batch_size) for one in self._on_host)

    @property
    def round(self) -> int:
        """Batches after which their sizes repeat; 1 where they hardly differ."""
        return len(self._sizes) if self._is_uneven else 1

    def note(self, batch: Any) -> None:
        """A further batch of the loader, whose size counts where sizes differ."""
        if self._is_uneven and samples_in(batch) == self.facts["samples"]:
            self._note_size(size_of(batch)[0])

    def hand_out(
        self, *, on_device: bool = False, is_weighed: bool = False, halved: bool = False
    ) -> Any:
        """The next one, with its first content: in rotation, or each as often as it stands for.

        `halved`: the first half of it.
        """
        kept = self._on_device if on_device else self._on_host
        self._given += 1
        place = self._given % len(kept)
        if is_weighed and self._is_uneven:
            place = self._by_weight()
        return kept[place].hand_out(half_of(self.facts["samples"]) if halved else None)

    def _note_size(self, size: int) -> None:
        self._seen += 1
        self._seen_bytes += size

    def _by_weight(self) -> int:
        """The next place of a round in which the sizes have the loader's mean."""
        if not self._round:
            self._round = _spread_out(_counts(self._sizes, self._seen_bytes / self._seen))
        return self._round.pop()


def _counts(sizes: Sequence[int], mean: float) -> list[int]:
    """How often to give each in a round of as many as there are, for that mean size.

    From once each on, one is given in the place of another as long as that brings the mean nearer.
    """
    counts = [1] * len(sizes)
    off = mean * len(sizes) - sum(sizes)
    while True:
        swaps = [
            (abs(off - (more - less)), place, other)
            for place, less in enumerate(sizes)
            if counts[place]
            for other, more in enumerate(sizes)
        ]
        best, place, other = min(swaps)
        if best >= abs(off):
            return counts
        counts[place] -= 1
        counts[other] += 1
        off -= sizes[other] - sizes[place]


def _spread_out(counts: Sequence[int]) -> list[int]:
    """The places, each as often as it counts, with its turns far apart."""
    whole = sum(counts)
    turns = [
        ((turn + 0.5) * whole / count, place)
        for place, count in enumerate(counts)
        for turn in range(count)
    ]
    return [place for _, place in sorted(turns, reverse=True)]
