"""What each fix changes in a scenario, and what it leaves.

A change returns None where the fix does not apply, or where nothing that was measured lets us say
what it would give.
"""

from __future__ import annotations

from stoker.diagnose.case import (
    Case,
    scaled,
    with_loader,
    with_machine,
    with_stage_costs,
    with_work,
)
from stoker.diagnose.queueing import USUAL_DEPTH, deeper
from stoker.diagnose.waste import Waste, find_waste
from stoker.diagnose.worker_counts import measured_leg
from stoker.records.profile import THREADS, LegCode, Unit
from stoker.records.scenario import Resource, Scenario
from stoker.stats import Spread
from stoker.theory import measured, whatif

# A store asked once for a shard of many samples waits this share of what one request a sample
# costs: 20 samples a request is what even small shards (4 MB of 200 KB pictures) hold.
_SHARD_WAIT = 0.05
# A file on a local disk, opened and read: a request, and the bytes at the rate of a SATA drive.
_LOCAL_S, _LOCAL_BYTES_PER_S = 1e-4, 5e8
# A random share below this is too little to move to the device.
RANDOM_WORTH = 0.2
# What is left of per-item work when a batch is fetched in one call; a twentieth is what a numpy
# take and one conversion cost of 128 single rows (0.03 of 0.65 ms).
_BATCHED_SHARE = 0.05
_COLLATION_WORTH = 0.2
# Frames from a key frame to the one that is sought, half of those between two: 12 are usual for
# FFmpeg's own encoders (gop_size), 250 for x264 (keyint); between them their geometric mean.
_FROM_KEY_FRAME = Spread(27.0, 6.0, 125.0)
# Batches this many times as large are what the fix of a fixed cost is forecast for.
BATCH_FACTOR = 4
_OPENING_WORTH = 0.3
_READ_WORTH = 4.0
# A batch below this is handed over in a fraction of a millisecond whatever its type.
_LARGE_BYTES = 2_000_000
_UINT8_SHARE = 0.25
# Share of the memory now available that a cache of samples may take.
_CACHE_SHARE = 0.5


# -- the work on a sample --------------------------------------------------------------------------


def stored_once(case: Case) -> Scenario | None:
    """Everything before the first random operation is done once and read back."""
    if case.facts.redone_share is None:
        return None
    return measured.packed(case.facts.profile, case.scenario)


def fits_in_memory(case: Case) -> bool | None:
    """Whether all samples, decoded, fit into half of the memory that is available.

    One cache serves all workers, so their number does not matter. None: not known.
    """
    facts = case.facts
    samples, room, each = (
        facts.loader.samples,
        facts.host.memory_available_bytes,
        facts.sample_bytes,
    )
    if samples is None or room is None or each is None:
        return None
    return samples * each <= _CACHE_SHARE * room


def cache_ram(case: Case) -> Scenario | None:
    """As stored once, where all decoded samples fit into memory, from which they are then read."""
    if case.facts.redone_share is None or not fits_in_memory(case):
        return None
    return measured.kept_in_memory(case.scenario)


def device_augment(case: Case) -> Scenario | None:
    """What comes after the first random operation moves to the device, whose step grows by it."""
    random = case.facts.random_share
    if random is None or random < RANDOM_WORTH:
        return None
    return measured.on_device(case.scenario)


# -- storage ---------------------------------------------------------------------------------------


def shard(case: Case) -> Scenario | None:
    """One request for a shard of many samples in place of one for each."""
    stages = scaled(case.scenario, _SHARD_WAIT, Resource.STORAGE)
    return with_work(case.scenario, stages=stages, reads=_SHARD_WAIT)


def cache_local(case: Case) -> Scenario | None:
    """The files of a sample on a local disk, from the second epoch on."""
    work = case.scenario.workload
    waits = [cost.per_sample.median for cost in work.stages if cost.resource is Resource.STORAGE]
    size = work.stored_bytes or work.sample_bytes or 0.0
    local_s = min(_LOCAL_S + size / _LOCAL_BYTES_PER_S, sum(waits))
    return whatif.storage(case.scenario, whatif.Store(name="local disk", wait_s=local_s))


# -- cores, epochs, delivery -----------------------------------------------------------------------


def more_cores(case: Case) -> Scenario | None:
    """All cores of the machine that the job does not own yet."""
    online = float(case.facts.host.cpus_online)
    if case.facts.host.quota is None and online <= case.scenario.machine.cores:
        return None
    needed = case.facts.cores_needed or online
    given = max(case.scenario.machine.cores, min(online, needed + 1))
    freed = with_machine(case.scenario, cores=given)
    if case.facts.host.throttled_share > 0:
        # Time in which a quota stopped the workers looks like waiting for storage; it ends with it.
        freed = with_work(freed, stages=scaled(freed, 0.0, Resource.STORAGE))
    loader = freed.loader
    # What workers lost by sharing too few cores they get back with cores of their own.
    workers = max(loader.workers, round(given))
    return with_loader(freed, workers=workers, efficiency=max(loader.efficiency, 0.9))


def masks_differ(case: Case) -> bool:
    """The workers may run on fewer cores than their parent."""
    mask = case.facts.host.worker_affinity
    return mask is not None and mask < case.facts.host.affinity


def persistent(case: Case) -> Scenario | None:
    """Workers live on from epoch to epoch."""
    loader = case.facts.loader
    if case.facts.workers == 0 or loader.persistent_workers or loader.start_method == THREADS:
        return None
    # What remains of a boundary is the time until the first batch is there, one batch's work.
    alone = case.facts.alone
    epochs = case.facts.profile.epochs
    if alone is None or epochs is None or not epochs.batches:
        return None
    fill = alone.period.median * max(1, case.facts.workers) / epochs.batches
    edge = case.scenario.workload.epoch_edge_s
    left = min(1.0, fill / edge.median) if edge.median > 0 else 1.0
    return with_work(case.scenario, epoch_edge_s=edge.scaled(left))


def flat(case: Case) -> Scenario | None:
    """Memory is what it mends; the step stays as it is."""
    return case.scenario


def one_thread(case: Case) -> Scenario | None:
    """The loader's measured period with one native thread a worker."""
    leg = case.facts.profile.leg(LegCode.ONE_THREAD)
    return measured_leg(case, leg) if leg is not None else None


def without_items(case: Case) -> Scenario | None:
    """One call a batch: what is left of the work is the copy."""
    return with_work(case.scenario, stages=scaled(case.scenario, _BATCHED_SHARE))


def vectorised(case: Case) -> Scenario | None:
    """Collation without a loop over elements."""
    share = case.facts.collate_share
    if share is None or share < _COLLATION_WORTH:
        return None
    return with_work(case.scenario, stages=scaled(case.scenario, 1 - share))


def read_once(case: Case) -> Scenario | None:
    """A group of samples is read and unpacked once for all that are taken from it.

    Of a video the frames between a key frame and the first one that is used are decoded as well.
    """
    waste = find_waste(case.facts)
    if waste is not None and waste.found.unit is Unit.FRAME:
        return _no_more_than(case, waste, _FROM_KEY_FRAME)
    return rechunked(case)


def rechunked(case: Case) -> Scenario | None:
    """What is read at once is what a sample, or a batch, needs."""
    waste = find_waste(case.facts)
    if waste is not None:
        return _no_more_than(case, waste, Spread.exact(0.0))
    read = case.facts.loader.read_amplification
    if read is None or read < _READ_WORTH:
        return None
    left = max(_BATCHED_SHARE, 1 / read)
    computing = with_work(case.scenario, stages=scaled(case.scenario, left))
    return with_work(computing, stages=scaled(computing, left, Resource.STORAGE))


def _no_more_than(case: Case, waste: Waste, further: Spread) -> Scenario:
    """The stages that decode too much, for what is used and so many further units."""

    def left(more: float) -> float:
        needed = (waste.found.used or 0.0) + more
        return min(1.0, max(_BATCHED_SHARE, needed / waste.found.decoded))

    share = Spread(left(further.median), left(further.low), left(further.high))
    both = (Resource.CORES, Resource.STORAGE)
    return with_stage_costs(case.scenario, waste.found.stages, share, both)


def smaller_payload(case: Case) -> Scenario | None:
    """A quarter of the bytes (uint8 for float32) to hand over and to copy."""
    facts = case.facts
    if facts.loader.batch_bytes < _LARGE_BYTES:
        return None
    less = with_work(
        case.scenario, transfer_s=case.scenario.workload.transfer_s.scaled(_UINT8_SHARE)
    )
    if facts.alone is None or facts.null is None or not facts.workers:
        return less
    saved = min(1.0, (1 - _UINT8_SHARE) * facts.null.period.median / facts.alone.period.median)
    quicker = with_work(less, stages=scaled(less, 1 - saved))
    return with_loader(quicker, hand_off_s=quicker.loader.hand_off_s * _UINT8_SHARE)


def kept_open(case: Case) -> Scenario | None:
    """Files and archives are opened once a worker, not once a sample."""
    share = case.facts.open_share
    if share < _OPENING_WORTH:
        return None
    opened = with_work(case.scenario, stages=scaled(case.scenario, 1 - share))
    return with_work(opened, stages=scaled(opened, 1 - share, Resource.STORAGE))


def flat_storage(case: Case) -> Scenario | None:
    """Objects become arrays; nothing that the closed form knows changes."""
    return None if case.facts.is_short_of_shm else case.scenario


def larger_shm(case: Case) -> Scenario | None:
    """Room for the batches that lie ready; the step stays as it is."""
    return case.scenario if case.facts.is_short_of_shm else None


def side_by_side(case: Case) -> Scenario | None:
    """Without the read-back host and device work at the same time: the longer one is the step."""
    return _quicker_step(case, case.facts.in_turns_s)


def without_python(case: Case) -> Scenario | None:
    """The script's own Python inside the step done elsewhere, or rarely."""
    after = _quicker_step(case, case.facts.host_work_s)
    if after is None:
        return None
    return with_work(after, contention_s=Spread.exact(0.0), training_cpu_s=Spread.exact(0.0))


def _quicker_step(case: Case, saved_s: float | None) -> Scenario | None:
    """The step on kept batches shorter by so many seconds."""
    device = case.scenario.workload.device_s
    if saved_s is None or device.median <= 0:
        return None
    return with_work(case.scenario, device_s=device.scaled(1 - saved_s / device.median))


def larger_batch(case: Case) -> Scenario | None:
    """What is fixed of a step stays what it is; only the rest grows with the batch.

    Fixed is what two batch sizes show to be; where none were tried, what the host launches.
    """
    launch, work = case.facts.launch_s, case.scenario.workload
    fixed, device = case.facts.fixed_share, work.device_s
    if device.median <= 0:
        return None
    if fixed is None:
        if launch is None:
            return None
        fixed = Spread.exact(min(1.0, min(launch, case.facts.device_waits_s) / device.median))
    middle, most, least = (
        share + (1 - share) * BATCH_FACTOR for share in (fixed.median, fixed.low, fixed.high)
    )
    longer = Spread(device.median * middle, device.low * least, device.high * most, device.count)
    return with_work(case.scenario, batch_size=work.batch_size * BATCH_FACTOR, device_s=longer)


def deeper_queue(case: Case) -> Scenario | None:
    """Means stay what they are: what it gives is simulated. None where there is no room for it."""
    now = case.facts.loader.prefetch_factor or USUAL_DEPTH
    return case.scenario if deeper(case.facts) > now else None


def any_order(case: Case) -> Scenario | None:
    """As above. One worker has one order."""
    return case.scenario if case.facts.workers > 1 and case.facts.loader.in_order else None


def pinned_async(case: Case) -> Scenario | None:
    """The copy to the device goes on while the step before it runs."""
    if case.scenario.workload.transfer_s.median <= 0:
        return None
    return with_loader(case.scenario, transfer_overlapped=True)
