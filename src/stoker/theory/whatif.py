"""Changes to a scenario that people ask about: what each takes away, and what it charges for it.

Each is a function Scenario -> Scenario; the gain is `pipeline.gain(before, after)`, nothing else.
"""

from __future__ import annotations

import msgspec

from stoker.records.scenario import Resource, Scenario, StageCost
from stoker.stats import Spread

# An A100 decodes 1,000 JPEGs in 0.128 s where one core of its host takes 2.54 s
# (github.com/pytorch/vision/pull/8496): work moved to a device takes a twentieth of a core's time.
DEVICE_OF_CPU = 1 / 20
# What DALI leaves to the CPU, at most: 112 cores of a DGX H100, less one for each of its 8 training
# processes, kept up with 57,280 images a second (mlcommons/training_results_v4.0 NVIDIA
# eos_ngc24.04_mxnet).
DALI_CPU_S = (112 - 8) / 57_280
# A shard holds thousands of samples; one request in a thousand samples is a cautious reading.
PACKED_READS = 1e-3
# A sample out of a pack costs a copy and the collation: this share of the work on it is what
# remained of decoding for pictures read from the page cache (0.2 of 4 ms).
PACKED_SHARE = 0.05
# uint8 instead of float32 crosses the hand-off and the link when the device does the conversion.
UINT8_OF_FLOAT32 = 0.25

_HAND_ON = "hand-on"


def pack(scenario: Scenario, *, stored_bytes: float, cached_share: float | None = None) -> Scenario:
    """Store what the repeatable stages make, once: they and the small reads go, bytes may grow.

    `stored_bytes` is one packed sample; `cached_share` what the page cache then serves (None: as
    before). Reading it back costs a twentieth of the work that it saves. Samples are read in large
    sequential requests.
    """
    share = scenario.workload.cached_share if cached_share is None else cached_share
    stages = tuple(_read_back(cost) for cost in scenario.workload.stages)
    rate = scenario.machine.storage_bytes_per_s
    if rate is not None:
        # Latency is gone with the small requests; what stays is the transfer of the bytes.
        stages = _waiting_for(stages, stored_bytes * (1 - share) / rate)
    workload = msgspec.structs.replace(
        scenario.workload,
        stages=stages,
        stored_bytes=stored_bytes,
        reads=PACKED_READS,
        cached_share=share,
    )
    return msgspec.structs.replace(scenario, workload=workload)


def device_augment(scenario: Scenario, *, payload: float = UINT8_OF_FLOAT32) -> Scenario:
    """Random and converting stages on the accelerator: their CPU goes, a twentieth is the step's.

    `payload` is the share of the batch's bytes that is then handed over and copied: a quarter where
    float32 becomes uint8, 1 where the type of the batch is not known.
    """
    moved = [cost for cost in scenario.workload.stages if _is_random(cost)]
    kept = tuple(cost for cost in scenario.workload.stages if cost not in moved)
    cpu = sum(cost.per_sample.median for cost in moved)
    return _on_device(scenario, kept, Spread.exact(cpu * DEVICE_OF_CPU), payload)


def dali(scenario: Scenario) -> Scenario:
    """Decode, resize and augment on the accelerator; what DALI leaves to the CPU stays there.

    Its threads live in the training process, so there is no hand-off between processes.
    What moves takes the accelerator between nothing, where an engine of its own decodes beside the
    step, and a twentieth of the core's time: half of that, with the whole as the interval.
    """
    moved = [
        cost
        for cost in scenario.workload.stages
        if cost.resource is Resource.CORES and cost.stage != _HAND_ON
    ]
    others = [cost for cost in scenario.workload.stages if cost.resource is not Resource.CORES]
    cpu = sum(cost.per_sample.median for cost in moved)
    left = min(DALI_CPU_S, cpu)
    remaining = StageCost(
        stage="dali",
        resource=Resource.CORES,
        # The published rate is a lower bound, so this cost is an upper one: half of it is the low.
        per_sample=Spread(left, left / 2, left),
        deterministic=False,
        source="published",
    )
    full = cpu * DEVICE_OF_CPU
    added = Spread(full / 2, 0.0, full)
    moved_on = _on_device(scenario, (remaining, *others), added, UINT8_OF_FLOAT32)
    loader = msgspec.structs.replace(moved_on.loader, hand_off_s=0.0, receive_s=Spread.exact(0.0))
    return msgspec.structs.replace(moved_on, loader=loader)


def workers(scenario: Scenario, count: int) -> Scenario:
    """Another worker count, each worker as efficient as before."""
    loader = msgspec.structs.replace(scenario.loader, workers=count)
    return msgspec.structs.replace(scenario, loader=loader)


def cores(scenario: Scenario, count: float) -> Scenario:
    """A host with another number of cores."""
    machine = msgspec.structs.replace(scenario.machine, cores=count)
    return msgspec.structs.replace(scenario, machine=machine)


def device(scenario: Scenario, step_s: float) -> Scenario:
    """Another accelerator or model: its seconds a step, the training process as busy as before."""
    factor = step_s / scenario.workload.device_s.median
    workload = msgspec.structs.replace(
        scenario.workload,
        device_s=Spread.exact(step_s),
        training_cpu_s=scenario.workload.training_cpu_s.scaled(factor),
    )
    return msgspec.structs.replace(scenario, workload=workload)


def cpu(scenario: Scenario, per_sample_s: float) -> Scenario:
    """Loading of another CPU cost in all, its stages in proportion."""
    stages = scenario.workload.stages
    total = sum(cost.per_sample.median for cost in stages if cost.resource is Resource.CORES)
    if total == 0:
        only = StageCost(
            stage="loading", resource=Resource.CORES, per_sample=Spread.exact(per_sample_s)
        )
        changed: tuple[StageCost, ...] = (*stages, only)
    else:
        changed = tuple(
            cost
            if cost.resource is not Resource.CORES
            else msgspec.structs.replace(
                cost, per_sample=cost.per_sample.scaled(per_sample_s / total)
            )
            for cost in stages
        )
    workload = msgspec.structs.replace(scenario.workload, stages=changed)
    return msgspec.structs.replace(scenario, workload=workload)


def batch(scenario: Scenario, size: int) -> Scenario:
    """Another batch size, every cost in proportion: one measured size can't tell what is fixed.

    A real step has a part that does not grow, so a larger batch is better than this and a smaller
    one worse.
    """
    factor = size / scenario.workload.batch_size
    workload = msgspec.structs.replace(
        scenario.workload,
        batch_size=size,
        device_s=scenario.workload.device_s.scaled(factor),
        transfer_s=scenario.workload.transfer_s.scaled(factor),
        contention_s=scenario.workload.contention_s.scaled(factor),
        epoch_edge_s=scenario.workload.epoch_edge_s.scaled(factor),
        training_cpu_s=scenario.workload.training_cpu_s.scaled(factor),
    )
    loader = msgspec.structs.replace(
        scenario.loader,
        hand_off_s=scenario.loader.hand_off_s * factor,
        receive_s=scenario.loader.receive_s.scaled(factor),
    )
    return msgspec.structs.replace(scenario, workload=workload, loader=loader)


def link(scenario: Scenario, bytes_per_s: float) -> Scenario:
    """Another link, its transfer exposed as before; needs the bytes of a finished sample."""
    work = scenario.workload
    machine = msgspec.structs.replace(scenario.machine, link_bytes_per_s=bytes_per_s)
    if work.sample_bytes is None:
        return msgspec.structs.replace(scenario, machine=machine)
    copied = Spread.exact(work.batch_size * work.sample_bytes / bytes_per_s)
    exposed = copied if work.transfer_s.median > 0 else work.transfer_s
    workload = msgspec.structs.replace(work, transfer_s=exposed)
    return msgspec.structs.replace(scenario, machine=machine, workload=workload)


class Store(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a kind of storage does to a sample: None is unknown and bounds nothing."""

    name: str
    wait_s: float  # of one worker for one sample, not cached
    bytes_per_s: float | None = None
    reads_per_s: float | None = None
    slots: int | None = None


def storage(scenario: Scenario, store: Store) -> Scenario:
    """The same samples from another store; what was blocked until now is replaced."""
    kept = tuple(cost for cost in scenario.workload.stages if cost.resource is not Resource.STORAGE)
    wait = store.wait_s * (1 - scenario.workload.cached_share)
    read = StageCost(
        stage="read", resource=Resource.STORAGE, per_sample=Spread.exact(wait), source=store.name
    )
    machine = msgspec.structs.replace(
        scenario.machine,
        storage_bytes_per_s=store.bytes_per_s,
        storage_reads_per_s=store.reads_per_s,
        storage_slots=store.slots,
    )
    workload = msgspec.structs.replace(
        scenario.workload, stages=(*kept, read) if wait > 0 else kept
    )
    return msgspec.structs.replace(scenario, machine=machine, workload=workload)


def _is_random(cost: StageCost) -> bool:
    return (
        cost.resource is Resource.CORES and cost.deterministic is False and cost.stage != _HAND_ON
    )


def _read_back(cost: StageCost) -> StageCost:
    """A stage behind a pack: what repeats is stored, and then nothing is left that could be."""
    if cost.resource is not Resource.CORES or cost.deterministic is not True:
        return cost
    return msgspec.structs.replace(
        cost, per_sample=cost.per_sample.scaled(PACKED_SHARE), deterministic=None
    )


def _waiting_for(stages: tuple[StageCost, ...], seconds: float) -> tuple[StageCost, ...]:
    """The stages with one wait for storage in place of all that they had; none where none was."""
    waits = [cost for cost in stages if cost.resource is Resource.STORAGE]
    others = tuple(cost for cost in stages if cost.resource is not Resource.STORAGE)
    return others + tuple(
        msgspec.structs.replace(cost, per_sample=Spread.exact(seconds)) for cost in waits[:1]
    )


def _on_device(
    scenario: Scenario, stages: tuple[StageCost, ...], per_sample: Spread, payload: float
) -> Scenario:
    """The scenario with these stages left on the host and so much a sample added to the device."""
    work, loader = scenario.workload, scenario.loader
    added = per_sample.scaled(work.batch_size)
    device = work.device_s
    workload = msgspec.structs.replace(
        work,
        stages=tuple(
            cost
            if cost.stage != _HAND_ON
            else msgspec.structs.replace(cost, per_sample=cost.per_sample.scaled(payload))
            for cost in stages
        ),
        device_s=Spread(
            device.median + added.median,
            device.low + added.low,
            device.high + added.high,
            device.count,
        ),
        transfer_s=work.transfer_s.scaled(payload),
        sample_bytes=None if work.sample_bytes is None else work.sample_bytes * payload,
    )
    settings = msgspec.structs.replace(
        loader,
        hand_off_s=loader.hand_off_s * payload,
        receive_s=loader.receive_s.scaled(payload),
    )
    return msgspec.structs.replace(scenario, workload=workload, loader=settings)
