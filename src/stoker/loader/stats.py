"""What `loader.stats()` gives, and where it is counted."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from stoker.loader.activity import Activity
from stoker.loader.engine import Engine
from stoker.loader.order import Share
from stoker.loader.tally import Tally


class LoaderStats(msgspec.Struct, frozen=True, kw_only=True):
    """What `loader.stats()` gives: of the current epoch, or of the last one.

    `batches`, `samples`: what the loop was given. `ready_share`: of the batches, those that lay
    ready when they were asked for. `ready_mean`: batches that lay ready at that moment, on average.
    `take_wait_s`: how long the loop waited. `put_wait_s`: how long threads had no room, summed over
    them. `stage_s`: seconds of the threads by stage, "augment" and "copy" among them; of worker
    processes that augment, nothing. `held_bytes`: batch memory that is not with the caller.
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


class Measured(NamedTuple):
    """Where one epoch is counted: `fed` and `activity` are of the thread that augments and copies.

    `fed` is None where there is none; the loop then takes from the engine itself. `usable`:
    samples of the pass, over all ranks; None where a sampler may go on for ever.
    """

    engine: Engine
    fed: Tally | None
    activity: Activity
    share: Share
    usable: int | None

    def stats(self, reading: str) -> LoaderStats:
        """What it comes to so far."""
        tally = self.fed or self.engine.tally
        given = tally.batches * self.share.global_batch
        # The last batch of a sampler without a length may be a short one.
        most = self.engine.tally.samples * self.share.world_size
        given = min(given, most if self.usable is None else self.usable)
        return LoaderStats(
            batches=tally.batches,
            samples=given // self.share.world_size,
            ready_share=tally.ready_share,
            ready_mean=tally.ready_mean,
            take_wait_s=tally.take_wait_s,
            put_wait_s=self.engine.tally.put_wait_s + (self.fed.put_wait_s if self.fed else 0.0),
            stage_s=self.engine.stages() | self.activity.stage_s,
            threads=self.engine.threads,
            depth=self.engine.depth,
            held_bytes=self.engine.tally.held_bytes,
            reading=reading,
        )
