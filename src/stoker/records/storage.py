"""What a store was measured to do: how its rate moves with readers and time, and what a read costs.

Made by `probe.storage`. Seconds and bytes throughout.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from stoker.stats import Spread

SCHEMA = "stoker.storage/1"


class StoreKind(StrEnum):
    """What limits the rate of a store.

    `latency`: each read waits, more readers get more. `slots`: the same, until so many reads run
    at a time. `one-head`: requests are served one after the other, whoever asks. `bandwidth`:
    bytes a second are the limit. `throttled`: a first allowance is used up, then a fixed rate.
    `fast`: the readers themselves, or the demand, are the limit. `unknown`: not told apart.
    """

    LATENCY = "latency"
    SLOTS = "slots"
    ONE_HEAD = "one-head"
    BANDWIDTH = "bandwidth"
    THROTTLED = "throttled"
    FAST = "fast"
    UNKNOWN = "unknown"


class Temperature(StrEnum):
    """Where the bytes were: evicted from this machine's page cache before, or in it."""

    COLD = "cold"
    WARM = "warm"


class RatePoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The rate that some readers reached together. Points stand in the order they were measured.

    A reader is anything that asks for the next thing when it has got the last one: a thread of
    leg Q or a DataLoader worker (then a request is a sample). `series` is the rate over
    consecutive stretches of the same number of requests; `cpu_share` the share of the readers'
    time on a core or waiting for one. `queued`: readers that waited for a core at a time, on
    average; `foreign_cores`: cores that other processes kept busy meanwhile. None: not seen.
    """

    readers: int
    requests_per_s: Spread
    bytes_per_request: float | None = None
    series: tuple[float, ...] = ()
    cpu_share: float | None = None
    queued: float | None = None
    foreign_cores: float | None = None

    @property
    def bytes_per_s(self) -> float | None:
        """Bytes a second of all readers together."""
        if self.bytes_per_request is None:
            return None
        return self.requests_per_s.median * self.bytes_per_request


class StoreScaling(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a rate moves with readers, request size and time, and what kind of store does that."""

    kind: StoreKind
    reason: str  # one clause with the numbers that decided
    one_reader_per_s: float | None = None
    most_per_s: float | None = None  # with as many readers as helped
    # Readers that the store serves at a time: where the rate stops rising. `high` is infinite when
    # it still rose with the most that were tried.
    slots: Spread | None = None
    # d log(requests/s) / d log(bytes a request) at the most readers: 0 when requests are the
    # limit, −1 when bytes are; None when one request size was tried.
    size_exponent: float | None = None
    # Rate after the change in time over the rate before it; None when the rate was steady.
    fall: float | None = None

    @property
    def verdict_kind(self) -> str | None:
        """The `kind` of a storage-bound verdict: a store with slots is one of latency."""
        match self.kind:
            case StoreKind.SLOTS:
                return StoreKind.LATENCY.value
            case StoreKind.FAST | StoreKind.UNKNOWN:
                return None
            case _:
                return self.kind.value


class ReadFit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """seconds = latency + bytes / bandwidth, fitted to single reads by one reader.

    `bytes_per_s` is None when more bytes did not measurably cost more; both are None when all
    reads had about one size, so that the two can't be told apart.
    """

    reads: int
    smallest_bytes: int
    largest_bytes: int
    latency: Spread | None
    bytes_per_s: Spread | None

    def seconds(self, size: float) -> float | None:
        """The fitted time of a read of `size` bytes."""
        if self.latency is None:
            return None
        transfer = size / self.bytes_per_s.median if self.bytes_per_s else 0.0
        return self.latency.median + transfer

    def fixed_share(self, size: float) -> float | None:
        """Share of such a read that does not depend on its bytes."""
        whole = self.seconds(size)
        return self.latency.median / whole if self.latency and whole else None


class AccessTest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One way of reading, repeated: what an access costs and the rate it gives."""

    name: str
    temperature: Temperature | None  # None: metadata, which nobody can evict without root
    readers: int
    accesses: int
    bytes_read: int
    wall_s: float
    access: Spread  # s, median of one access, opening the file included when it is part of it
    open: Spread | None = None  # s, median of opening alone
    accesses_per_s: Spread
    cached_share: float | None = None  # share of the pages in the cache just before; None: unseen

    @property
    def bytes_per_s(self) -> float:
        """Bytes a second over the whole test."""
        return self.bytes_read / self.wall_s if self.wall_s > 0 else 0.0


class FileSystem(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The file system that a path lies on."""

    kind: str
    source: str
    mount_point: str
    is_network: bool = False
    is_memory: bool = False


class StorageReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The whole answer of `stoker storage PATH`."""

    schema: str = SCHEMA
    path: str
    file_system: FileSystem
    files: int  # found, not all of them read
    file_bytes: int
    tests: tuple[AccessTest, ...]
    # Reads of this size by several readers at a time, cold where that could be had.
    parallel_bytes: int | None = None
    parallel: tuple[RatePoint, ...] = ()
    scaling: StoreScaling | None = None
    cold_fit: ReadFit | None = None
    warm_fit: ReadFit | None = None
    cold_impossible: str | None = None  # why nothing cold is reported
    scratch_bytes: int = 0  # written, read and removed again because the folder held nothing
    bytes_read: int
    seconds: float
    skipped: tuple[str, ...] = ()  # what was not measured, and why
