"""What `loader.stats()` gives."""

from __future__ import annotations

import msgspec


class LoaderStats(msgspec.Struct, frozen=True, kw_only=True):
    """What `loader.stats()` gives: of the current epoch, or of the last one.

    `ready_share`: of the batches, those that lay ready when they were asked for. `ready_mean`:
    batches that lay ready at that moment, on average. `take_wait_s`: how long the loop waited.
    `put_wait_s`: how long threads had no room, summed over them. `stage_s`: seconds of the
    threads by stage. `held_bytes`: batch memory that is not with the caller.
    """

    batches: int
    samples: int
    ready_share: float
    ready_mean: float
    take_wait_s: float
    put_wait_s: float
    stage_s: dict[str, float]
    threads: int
    depth: int
    held_bytes: int
    reading: str

    @classmethod
    def nothing(cls, reading: str) -> LoaderStats:
        """Before the first batch."""
        return cls(
            batches=0,
            samples=0,
            ready_share=0.0,
            ready_mean=0.0,
            take_wait_s=0.0,
            put_wait_s=0.0,
            stage_s={},
            threads=0,
            depth=0,
            held_bytes=0,
            reading=reading,
        )
