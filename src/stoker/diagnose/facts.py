"""What the judge and the fixes look at: a profile's numbers under the names of the theory.

All per training step and in seconds, unless the name says otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from stoker.records.profile import (
    BESIDE,
    HostTruth,
    Leg,
    LegCode,
    LoaderFacts,
    Profile,
    StageTime,
)
from stoker.stats import Spread, difference, ratio
from stoker.theory import measured

ZERO = Spread.exact(0.0)
# Waits for a store are in the making of samples, and most of it; what is below half of it may be
# a first read, a lock, a page fault. A worker that nobody takes batches from waits outside of it.
_WAITING = 0.50
# As the probe notes a side loader that broke.
_WORKERS_FAILED = re.compile(r"a loader of [1-9]\d* workers failed: (.*)")
# What is called for fewer samples than this is not called for each.
_EACH = 0.5
# Opening a picture or a plain file is cheap, and needed for each.
_OPENS_A_SAMPLE = ("open (file)", "open (Pillow)", "open (simplejpeg)")
# Above this share of the cores the job's own processes stand in each other's way now and then.
_CLOSE = 0.7
# Workers that keep a cache keep about what they deliver; growth that goes on is the same for long.
_KEPT, _STEADY = 0.5, 1.6
# A device that is behind by less than this share of a step, when all of it is launched, has waited
# for the launches: what was launched last is all that it still has to do.
_CAUGHT_UP = 0.10


@dataclass(frozen=True)
class Facts:
    """A profile that has at least the legs R and D."""

    profile: Profile
    loader: LoaderFacts
    host: HostTruth
    real: Spread  # R, epoch boundaries included
    inside: Spread  # R between boundaries
    device: Spread  # D
    on_host: Spread  # H; D where the model lives on the host
    contended: Spread  # C; H where there are no workers
    produce: Spread | None  # Lc: the loader's period while the step runs beside it
    alone: Leg | None  # L
    null: Leg | None  # N
    waits: Spread  # inside next(), leg R
    edge: Spread  # epoch boundaries, spread over the steps

    @property
    def workers(self) -> int:
        """Worker processes of the training loader."""
        return self.loader.workers

    @property
    def lost_share(self) -> Spread:
        """1 − AU."""
        au = ratio(self.device, self.real)
        return Spread(1 - au.median, 1 - au.high, 1 - au.low, au.count)

    @property
    def batch_size(self) -> int:
        """Samples a step."""
        return max(1, round(self.loader.batch_size * self.loader.batches_per_step))

    @property
    def load_cpu_s(self) -> float | None:
        """CPU-seconds that one step's batch costs its workers."""
        return self.alone.cpu_s.median if self.alone and self.alone.cpu_s else None

    @property
    def cores_busy(self) -> float | None:
        """Cores that the loader alone keeps busy."""
        if self.alone is None or self.load_cpu_s is None:
            return None
        return self.load_cpu_s / self.alone.period.median

    @property
    def cores_wanted(self) -> float | None:
        """Cores that the loader alone is on or waits for: what it would use if it had them."""
        if self.alone is None or self.load_cpu_s is None:
            return None
        queued = self.alone.runqueue_s.median if self.alone.runqueue_s is not None else 0.0
        return (self.load_cpu_s + queued) / self.alone.period.median

    @property
    def foreign_cores(self) -> float:
        """Cores that other processes kept busy: as counted, or as workers felt it in their queue.

        No more workers than cores, and with the training process far from filling them: for what
        they wait beyond its time on a core, others hold it.
        """
        counted = self.host.foreign_cores or 0.0
        leg = self.alone
        if leg is None or leg.runqueue_s is None or not 0 < leg.workers <= self.cores_usable:
            return counted
        main = leg.main_cpu_s.median if leg.main_cpu_s is not None else 0.0
        own = leg.cpu_s.median + main if leg.cpu_s is not None else main
        if own >= _CLOSE * self.cores_usable * leg.period.median:
            return counted  # they meet each other
        return max(counted, (leg.runqueue_s.median - main) / leg.period.median)

    @property
    def cores_needed(self) -> float | None:
        """Cores for the device's pace, the loading alone."""
        return self.load_cpu_s / self.device.median if self.load_cpu_s is not None else None

    @property
    def cores_usable(self) -> float:
        """Cores that workers may run on."""
        owned = self.host.cores_owned
        mask = self.host.worker_affinity
        return min(owned, float(mask)) if mask is not None else owned

    @property
    def draws_itself(self) -> bool:
        """True where the data set's own `__getitem__` is what is random."""
        return measured.draws_itself(self.profile)

    @property
    def is_random_apart(self) -> bool:
        """False where what follows a draw of the data set's own `__getitem__` can't be told."""
        return measured.is_random_apart(self.profile)

    @property
    def random_share(self) -> float | None:
        """Share of the work on a sample that is random; None where it can't be told apart."""
        return measured.random_share(self.profile)

    @property
    def redone_share(self) -> float | None:
        """Share of the loader's CPU time that must be spent anew on each sample, at most.

        From the first random operation on, and what is no sample's own: collation, hand-off.
        """
        shares = measured.shares_of(self.profile)
        return None if shares is None else 1 - shares.repeated

    @property
    def blocked_share(self) -> float | None:
        """Share of a worker's time that was neither on a core nor waiting for one."""
        leg = self.alone
        if leg is None or leg.cpu_s is None:
            return None
        presence = leg.period.median * max(1, leg.workers)
        queued = leg.runqueue_s.median if leg.runqueue_s is not None else 0.0
        return max(0.0, 1 - (leg.cpu_s.median + queued) / presence)

    @property
    def queued_share(self) -> float | None:
        """Share of a worker's time in which it waits for a core; leg L."""
        leg = self.alone
        if leg is None or leg.runqueue_s is None:
            return None
        return leg.runqueue_s.median / (leg.period.median * max(1, leg.workers))

    @property
    def workers_failed(self) -> str | None:
        """The error that ended every loader with workers that was tried; None where one ran."""
        if any(leg.workers for leg in self.profile.scaling):
            return None
        found = map(_WORKERS_FAILED.search, self.profile.environment.notes)
        return next((match[1] for match in found if match is not None), None)

    @property
    def waiting_share(self) -> float | None:
        """Share of the making of a batch that passes on no core and in no queue for one.

        Seen inside the fetches (leg S); else in a loader without workers (L0), which has nobody to
        hand over to; else all that a worker is blocked. Between two fetches a worker waits for its
        next index, or for somebody to take what it has made: no store is in that.
        """
        stages = [s for s in self.profile.stages if s.where == "worker" or not self.workers]
        wall = sum(stage.wall_s for stage in stages)
        if wall > 0:
            return sum(stage.blocked_s for stage in stages) / wall
        serial = self.at_workers(0)
        if serial is None or serial.cpu_s is None:
            return self.blocked_share
        return max(0.0, 1 - serial.cpu_s.median / serial.period.median)

    @property
    def is_waiting(self) -> bool:
        """True where samples wait for something for most of the time in which they are made."""
        return (self.waiting_share or 0.0) >= _WAITING

    @property
    def waits_a_sample_s(self) -> float | None:
        """Seconds for which a sample is waited for while it is made; leg L."""
        if self.alone is None or self.blocked_share is None:
            return None
        presence = self.alone.period.median * max(1, self.alone.workers)
        return self.blocked_share * presence / self.batch_size

    @property
    def has_device(self) -> bool:
        """True when the model does not live on the host."""
        return self.profile.environment.device != "cpu"

    @property
    def launch_s(self) -> float | None:
        """Seconds of a step in which the training thread is on a core, batches being there."""
        inside = self.profile.inside
        if inside is None:
            return None
        return (inside.python + inside.library) * self.device.median

    @property
    def fixed_share(self) -> Spread | None:
        """Share of a step that stays whatever its batch holds; leg F.

        Two batch sizes give the line t(n) = a + b·n, of which this is a over the whole step. None
        where half a batch takes less than half of the time: then it is left out, or other work.
        """
        sizes = self.profile.by_size
        if sizes is None:
            return None
        left, more = ratio(sizes.half, sizes.whole), sizes.samples - sizes.half_samples

        def fixed(of_half: float) -> float:
            return (sizes.samples * of_half - sizes.half_samples) / more

        ends = fixed(left.low), fixed(left.high)
        if not ends[1] >= 0:
            return None
        middle, low, high = (min(1.0, max(0.0, one)) for one in (fixed(left.median), *ends))
        return Spread(middle, low, high, left.count)

    @property
    def device_waits_s(self) -> float:
        """Seconds of a step in which the device may wait for the host, batches being there.

        What the host does meanwhile the device covers. All of the step where there is no device
        but the host, and for an emulated one that was not asked; as much as it says itself where
        it does. A CUDA device that has caught up when a step is launched has waited inside of it,
        where no event tells how long; one that says nothing proves nothing.
        """
        told, whole = self.profile.device, self.device.median
        idle = told.idle_alone_s if told is not None else None
        if told is None or idle is None:
            is_real = self.has_device and not self.profile.environment.emulated
            return 0.0 if is_real else whole
        if told.behind_s is not None and told.behind_s.median <= _CAUGHT_UP * whole:
            return whole
        return min(whole, idle.median)

    @property
    def host_work_s(self) -> float | None:
        """Seconds of a step for which the device waits for the script's own Python; leg P."""
        inside = self.profile.inside
        if inside is None:
            return None
        return min(inside.python * self.device.median, self.device_waits_s)

    @property
    def in_turns_s(self) -> float | None:
        """Seconds of a step that host and device could work side by side, and take turns; leg P.

        Of two things done one after the other, the shorter one can hide behind the longer.
        """
        inside, launch = self.profile.inside, self.launch_s
        if inside is None or launch is None:
            return None
        return min(launch, inside.read_back * self.device.median, self.device_waits_s)

    @property
    def validation_s(self) -> float:
        """Seconds of validation for each training step, at boundaries and in mid-epoch."""
        epochs = self.profile.epochs
        if epochs is None:
            return 0.0
        at_boundaries = epochs.validation_s / epochs.batches if epochs.batches else 0.0
        return (at_boundaries + epochs.mid_validation_s) * self.loader.batches_per_step

    @property
    def collate_share(self) -> float | None:
        """Share of the loader's CPU time that goes into putting batches together."""
        if self.loader.collate_s is None or not self.load_cpu_s:
            return None
        return min(1.0, self.loader.collate_s * self.loader.batches_per_step / self.load_cpu_s)

    @property
    def sample_bytes(self) -> float | None:
        """Bytes of one sample in a finished batch."""
        if not self.loader.batch_bytes:
            return None
        return self.loader.batch_bytes / self.loader.batch_size

    @property
    def kept_bytes(self) -> float | None:
        """Bytes that the workers end with if they go on to keep what they have made, as a cache of
        a data set's own does; None where they are not seen to do so.

        It grows batch by batch without slowing down, by half of what a batch holds or more.
        """
        growth, epochs = self.profile.memory, self.profile.epochs
        if growth is None or growth.lately is None or not self.loader.batch_bytes:
            return None
        is_steady = 1 / _STEADY <= growth.lately <= _STEADY
        if not is_steady or growth.bytes_per_batch < _KEPT * self.loader.batch_bytes:
            return None
        batches = epochs.batches if epochs is not None else None
        # A worker that lives on meets, epoch by epoch, the samples of all others too.
        times = self.workers if self.loader.persistent_workers else 1
        return growth.bytes_per_batch * batches * times if batches else None

    @property
    def packed_bytes(self) -> float | None:
        """Bytes of one sample in a pack: as seen where it is cut, else those of a finished one."""
        seen = self.loader.packed_bytes
        return self.sample_bytes if seen is None else seen

    @property
    def open_share(self) -> float:
        """Share of a sample's time that goes into opening files and archives."""
        return self.share_of(lambda stage: stage.stage.startswith("open "))

    @property
    def reopened_share(self) -> float:
        """Share of a sample's time that goes into opening files that hold others as well."""
        if self.loader.read_amplification is None:
            return 0.0  # no file stood behind several samples
        return self.share_of(
            lambda stage: (
                stage.stage.startswith("open ")
                and stage.stage not in _OPENS_A_SAMPLE
                and stage.calls >= _EACH
            )
        )

    def share_of(self, is_asked_for: Callable[[StageTime], bool]) -> float:
        """Share of a sample's time that these stages take."""
        stages = [stage for stage in self.profile.stages if stage.where != BESIDE]
        whole = sum(stage.wall_s for stage in stages)
        return sum(stage.wall_s for stage in stages if is_asked_for(stage)) / (whole or 1.0)

    @property
    def is_short_of_shm(self) -> bool:
        """Batches that lie ready take more shared memory than there is."""
        size, needed = self.host.shm_bytes, self.host.shm_needed_bytes
        return self.workers > 0 and size is not None and needed is not None and needed > size

    @property
    def fastest_with_fewer(self) -> Leg | None:
        """Leg L with the fewer workers that were the fastest."""
        fewer = [leg for leg in self.profile.scaling if leg.workers < self.workers]
        return min(fewer, key=lambda leg: leg.period.median, default=None)

    def at_workers(self, workers: int) -> Leg | None:
        """Leg L with that many workers."""
        if self.alone is not None and self.alone.workers == workers:
            return self.alone
        return next((leg for leg in self.profile.scaling if leg.workers == workers), None)

    @property
    def more_workers(self) -> Leg | None:
        """Leg L with the most workers beyond the script's own."""
        more = [leg for leg in self.profile.scaling if leg.workers > self.workers]
        return max(more, key=lambda leg: leg.workers) if more else None


def _is_sharp(drain: Spread, alone: Spread) -> bool:
    """Whether the few batches drained beside the step tell more than leg L does."""
    return drain.half_width_share <= max(0.05, 2 * alone.half_width_share)


def _edge(profile: Profile, inside: Spread) -> Spread:
    """The boundaries' share of a step; with the boundaries' own interval, not the step's."""
    assert profile.real is not None
    centre = profile.real.median - inside.median
    epochs, loader = profile.epochs, profile.loader
    if epochs is None or loader is None or epochs.edge_s is None or not epochs.batches:
        return difference(profile.real, inside)
    seen = epochs.edge_s.scaled(loader.batches_per_step / epochs.batches)
    if seen.count < 2:
        return Spread(centre, min(0.0, 2 * centre), max(0.0, 2 * centre), seen.count)
    return Spread(
        centre, centre - (seen.median - seen.low), centre + (seen.high - seen.median), seen.count
    )


def facts_of(profile: Profile) -> Facts | None:
    """The facts, or None when legs R and D were not both run."""
    real, device = profile.leg(LegCode.REAL), profile.leg(LegCode.DEVICE)
    if real is None or device is None or profile.loader is None or profile.real is None:
        return None
    on_host = profile.leg(LegCode.HOST)
    contended = profile.leg(LegCode.CONTENDED)
    alone = profile.leg(LegCode.LOADER)
    host_s = on_host.period if on_host else device.period
    produce = contended.drain if contended is not None else None
    step = contended.period.median if contended is not None else host_s.median
    if alone is not None and (
        produce is None
        or not _is_sharp(produce, alone.period)
        # A loader of twice the pace keeps up; its drainer may lack the interpreter's lock.
        or alone.period.median < step / 2
    ):
        produce = alone.period
    if produce is not None and produce.median > max(real.period.median, step):
        # The loop itself got a batch in each step: no loader can be slower than that.
        produce = real.period
    return Facts(
        profile=profile,
        loader=profile.loader,
        host=profile.host,
        real=profile.real,
        inside=real.period,
        device=device.period,
        on_host=host_s,
        contended=contended.period if contended else host_s,
        produce=produce,
        alone=alone,
        null=profile.leg(LegCode.NULL),
        waits=profile.waits or ZERO,
        edge=_edge(profile, real.period),
    )
