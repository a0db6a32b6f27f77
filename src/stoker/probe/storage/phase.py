"""One phase of measuring reads: bursts of cold or warm reads within bounds of time and bytes.

Standard library only. Evicts only the ranges that it is about to read, and checks that they went.
"""

from __future__ import annotations

import mmap
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from stoker import clocks
from stoker.probe.process import IoBytes, io_bytes
from stoker.probe.storage.reading import (
    LIKE_A_LOADER,
    Burst,
    Files,
    Manner,
    Request,
    Store,
    read_together,
)
from stoker.probe.storage.residency import cached_share, evict

COLD = "cold"
WARM = "warm"
# Above this share of pages left in the cache a mean of "cold" reads is off by more than noise.
_COLD_ENOUGH = 0.05
# Bursts that may turn out empty, all their pages having stayed, before a phase is given up.
_MOST_TRIES = 3
# A first burst of this many requests a reader tells how many fill the time.
_FIRST_ROUNDS = 3
# Requests of one burst: they are evicted and looked up one by one before it, some 25 µs each.
_MOST_REQUESTS = 1000


class Phase(NamedTuple):
    """Bursts under equal conditions. `cached_share`: pages in the cache just before, if seen."""

    name: str
    temperature: str
    readers: int
    bursts: tuple[Burst, ...]
    cached_share: float | None


class Bounds(NamedTuple):
    """What measuring may use up."""

    seconds: float
    most_bytes: int
    # One standard error of a mean is 4 % of the deviation of a request then, on any store.
    most_accesses: int = 600


class Supply:
    """Requests in a shuffled order that starts over when all were given."""

    def __init__(self, requests: Sequence[Request], *, in_order: bool = False) -> None:
        self.requests = list(requests)
        if not in_order:
            random.Random(len(self.requests)).shuffle(self.requests)
        self._next = 0
        self.was_reused = False

    def __len__(self) -> int:
        return len(self.requests)

    @property
    def mean_length(self) -> float:
        """Bytes of a request on average."""
        return sum(request.length for request in self.requests) / max(1, len(self.requests))

    def parts(self) -> Supply:
        """Beginnings of the larger requests, a quarter of the mean length and no more.

        Read beside the whole ones they tell what a byte costs. Empty where that would be less
        than a page, the least that is ever fetched.
        """
        length = int(self.mean_length) // 4
        if length < mmap.PAGESIZE:
            return Supply([])
        return Supply(
            [
                request._replace(length=length)
                for request in self.requests
                if request.length >= 2 * length
            ]
        )

    def take(self, count: int) -> list[Request]:
        """The next requests, all different: at most all there are."""
        count = min(count, len(self.requests))
        start, self._next = self._next, self._next + count
        taken = self.requests[start : self._next]
        if self._next >= len(self.requests):
            self.was_reused = self.was_reused or len(taken) < count
            self._next = count - len(taken)
            taken += self.requests[: self._next]
        return taken


class _Ready(NamedTuple):
    """Requests brought to the wanted temperature, and their cached pages; None when unseen."""

    requests: Sequence[Request]
    cached_share: float | None


class Reads:
    """Runs phases one after the other against common bounds of time and bytes."""

    def __init__(
        self,
        bounds: Bounds,
        *,
        store: Store | None = None,
        clock: Callable[[], float] = clocks.wall_s,
        never_cold: str | None = None,
    ) -> None:
        self._store = store or Files()
        self._clock = clock
        self._began_s = clock()
        self._bounds = bounds
        self.bytes_read = 0
        self.failures: list[str] = []
        self.stuck = 0  # reads left out, because their pages stayed in the cache
        self._cold_reads = 0
        self._never_cold = never_cold

    @property
    def never_cold(self) -> str | None:
        """Why no read was cold so far, or None."""
        if self._never_cold or self._cold_reads or not self.stuck:
            return self._never_cold
        return (
            f"all {self.stuck} reads stayed in the page cache after asking for them to be dropped "
            "(another process maps or writes the files, or the file system keeps them)"
        )

    @property
    def elapsed_s(self) -> float:
        """Time since the start."""
        return self._clock() - self._began_s

    @property
    def left(self) -> Bounds:
        """What may still be used."""
        return Bounds(
            max(0.0, self._bounds.seconds - self.elapsed_s),
            max(0, self._bounds.most_bytes - self.bytes_read),
        )

    def run(
        self,
        name: str,
        supply: Supply,
        *,
        readers: int = 1,
        temperature: str = COLD,
        manner: Manner = LIKE_A_LOADER,
        bounds: Bounds,
    ) -> Phase | None:
        """Bursts until `bounds` (or the common ones) are used up.

        None when there is nothing to read, no time or bytes are left, or cold reads turned out to
        be impossible (then `never_cold` says why).
        """
        left = self.left
        until_s = self._clock() + min(bounds.seconds, left.seconds)
        until_bytes = self.bytes_read + min(bounds.most_bytes, left.most_bytes)
        bursts: list[Burst] = []
        shares: list[float] = []
        count = _FIRST_ROUNDS * readers
        done = tries = 0
        # The first burst is made with whatever time is left: no phase without a number.
        while not done or (self._clock() < until_s and done < bounds.most_accesses):
            room = int((until_bytes - self.bytes_read) / max(1.0, supply.mean_length))
            requests = supply.take(max(0, min(count, room, _MOST_REQUESTS)))
            if not requests or (not done and tries == _MOST_TRIES):
                break
            if temperature == COLD and self._never_cold:
                return None
            tries += 1
            ready = self._chill(requests) if temperature == COLD else self._heat(requests)
            if not ready.requests:
                continue
            before = io_bytes()
            burst = read_together(
                ready.requests,
                readers,
                seconds=max(0.0, until_s - self._clock()),
                store=self._store,
                manner=manner,
                clock=self._clock,
            )
            self.bytes_read += _bytes(burst)
            self.failures += burst.failures
            if not burst.accesses:
                break
            if temperature == COLD:
                if ready.cached_share is None and not self._came_from_device(before, burst):
                    return None
                self._cold_reads += len(burst.accesses)
            bursts.append(burst)
            shares += [] if ready.cached_share is None else [ready.cached_share]
            done += len(burst.accesses)
            rate = len(burst.accesses) / max(burst.wall_s, 1e-9)
            count = max(readers, int(rate * max(0.0, until_s - self._clock())))
        if not bursts:
            return None
        # The worst of them: the most that was cached of cold reads, the least of warm ones.
        worst = max if temperature == COLD else min
        share = worst(shares) if shares else None
        return Phase(name, temperature, readers, tuple(bursts), share)

    def _chill(self, requests: Sequence[Request]) -> _Ready:
        """Evict the requests; those whose pages went are ready."""
        gone: list[Request] = []
        shares: list[float] = []
        stuck = list(requests)
        for flush in (False, True):  # dirty pages can't be dropped before they are written
            for request in stuck:
                evict(request.path, request.offset, request.length, flush=flush)
            seen = [(request, _cached(request)) for request in stuck]
            stuck = [r for r, share in seen if share is not None and share > _COLD_ENOUGH]
            gone += [r for r, share in seen if share is None or share <= _COLD_ENOUGH]
            shares += [s for _, s in seen if s is not None and s <= _COLD_ENOUGH]
            if not stuck:
                break
        self.stuck += len(stuck)
        return _Ready(gone, sum(shares) / len(shares) if shares else None)

    def _heat(self, requests: Sequence[Request]) -> _Ready:
        """Read the requests once without timing them."""
        share = _mean_cached(requests)
        if share is None or share < 1.0:
            burst = read_together(
                requests, 1, seconds=self.left.seconds, store=self._store, clock=self._clock
            )
            self.bytes_read += _bytes(burst)
            share = _mean_cached(requests)
        return _Ready(requests, share)

    def _came_from_device(self, before: IoBytes | None, burst: Burst) -> bool:
        """For files whose pages the kernel doesn't show: were the bytes fetched just now?"""
        after = io_bytes()
        if before is None or after is None:
            self._never_cold = (
                "the kernel shows neither which pages of these files are cached (they belong to "
                "somebody else) nor what this process read from the device"
            )
            return False
        share = (after.read_bytes - before.read_bytes) / max(1, _bytes(burst))
        if share >= 1 - _COLD_ENOUGH:
            return True
        self._never_cold = (
            f"{share:.0%} of the bytes came from the device after asking for the files to be "
            "dropped from the page cache; which pages stayed is shown to their owner only"
        )
        return False


def _bytes(burst: Burst) -> int:
    return sum(access.length for access in burst.accesses)


def _cached(request: Request) -> float | None:
    return cached_share(request.path, request.offset, request.length)


def _mean_cached(requests: Sequence[Request]) -> float | None:
    """Mean share of cached pages of the requests; None when none can be seen."""
    shares = [share for request in requests if (share := _cached(request)) is not None]
    return sum(shares) / len(shares) if shares else None
