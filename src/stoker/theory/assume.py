"""From zoo entries and choices to what can be forecast: Setting -> Scenario, with every basis.

Pure. The counterpart of `calibrate`: there the costs were measured, here somebody else's numbers
are assumed, and each says whose. What is not stated stays unknown and bounds nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from stoker.errors import InputError
from stoker.records.scenario import (
    LoaderSettings,
    Machine,
    Resource,
    Scenario,
    StageCost,
    Workload,
)
from stoker.records.zoo import (
    Layers,
    Op,
    Sourced,
    Storage,
)
from stoker.stats import Spread
from stoker.theory.cache import cached_share
from stoker.theory.setting import Setting, check, finished_bytes, pixels_of, stored_bytes
from stoker.theory.step import StepForecast, default_stack, step_time
from stoker.units import Dimension, text

# Three quarters of 51 published decode rates (12 libraries, each on three to five processors) lie
# within this factor of their library's mean: the band of an operation on an unnamed processor.
OP_BAND = 1.35
# The training process launches kernels and its pinning thread copies: one core for the whole of
# the step, as the usual rule counts it (workers + 1 for each accelerator; stas00/ml-engineering).
TRAINING_CORES = 1.0
# What the page cache may use: the training processes and the system need their share of memory.
CACHE_OF_MEMORY = 0.8


class Basis(msgspec.Struct, frozen=True):
    """Where one number of a forecast is from."""

    what: str
    value: str
    kind: str
    source: str


class Assumed(NamedTuple):
    """A setting worked out: the scenario, its step, and what it rests on."""

    scenario: Scenario
    step: StepForecast
    bases: tuple[Basis, ...]
    unknown: tuple[str, ...]


def assumed(setting: Setting) -> Assumed:
    """The scenario of a setting, all intervals 75 % bands.

    Raises InputError for a batch that does not fit the accelerator's memory, for a number that
    makes no sense, and when nobody says how many cores there are.
    """
    check(setting)
    step = _step(setting)
    if not step.fits:
        raise _too_large(setting, step)
    cores, cores_basis = _cores(setting)
    sample_bytes = finished_bytes(setting)
    bases = [_step_basis(step), cores_basis]
    unknown: list[str] = []
    stages = (*_op_stages(setting, bases, unknown), *_copy_stage(setting, sample_bytes, bases))
    share = _cached(setting, bases)
    read = _read_stage(setting, share, bases, unknown)
    transfer_s, link_rate = _transfer(setting, sample_bytes, bases, unknown)
    scenario = Scenario(
        machine=Machine(
            name=setting.host.title if setting.host else f"{text_of_count(cores)} cores",
            cores=cores,
            accelerators=setting.accelerators,
            storage_bytes_per_s=_store_rate(setting),
            storage_reads_per_s=_value(setting.storage.reads_per_s if setting.storage else None),
            storage_slots=_slots(setting.storage),
            link_bytes_per_s=link_rate,
            memory_bytes=_value(setting.host.memory_bytes if setting.host else None),
        ),
        workload=Workload(
            batch_size=setting.batch,
            stages=(*stages, *read),
            device_s=step.seconds,
            transfer_s=Spread.exact(transfer_s),
            training_cpu_s=step.seconds.scaled(TRAINING_CORES),
            sample_bytes=sample_bytes,
            stored_bytes=stored_bytes(setting),
            cached_share=share,
        ),
        loader=LoaderSettings(
            workers=setting.workers,
            prefetch_factor=setting.prefetch_factor,
            transfer_overlapped=setting.transfer_overlapped,
            hand_off_s=_hand_off(setting, sample_bytes, bases),
        ),
        basis=f"assumed from the zoo: {step.basis}",
    )
    return Assumed(scenario, step, tuple(bases), tuple(unknown))


def largest_batch(setting: Setting) -> int:
    """The most samples a step that fit the accelerator's memory; 0 when not even one does."""
    low, high = 0, 1
    while _step(msgspec.structs.replace(setting, batch=high)).fits and high < 2**24:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if _step(msgspec.structs.replace(setting, batch=middle)).fits:
            low = middle
        else:
            high = middle
    return low


def text_of_count(value: float) -> str:
    """A count without decimals where it has none: "16", "1.5"."""
    return f"{value:g}"


def _units(setting: Setting) -> int:
    """The model's units in a batch: a sample of a language model is a sequence of tokens."""
    if setting.model.unit == "token":
        return setting.batch * (setting.model.tokens or 1)
    return setting.batch


def _step(setting: Setting) -> StepForecast:
    return step_time(
        setting.model,
        setting.accelerator,
        batch=_units(setting),
        stack=setting.stack or default_stack(setting.model),
        precision=setting.precision,
        training=setting.training,
        accelerators=_sharing_state(setting),
    )


def _sharing_state(setting: Setting) -> int:
    """Accelerators that share weights and optimizer state: language models are sharded."""
    return setting.accelerators if setting.model.layers is Layers.LLM else 1


def _too_large(setting: Setting, step: StepForecast) -> InputError:
    memory = setting.accelerator.memory_bytes.value
    most = largest_batch(setting)
    return InputError(
        f"a batch of {setting.batch} does not fit: {setting.model.name} needs "
        f"{text(step.memory_bytes, Dimension.BYTES)} of memory, {setting.accelerator.name} has "
        f"{text(memory, Dimension.BYTES)}",
        looked_at="weights, gradients, optimizer state and activations of one step",
        run_next=f"--batch {most} is the largest that fits"
        if most
        else "no batch fits: take an accelerator with more memory"
        + (", or --accelerators 8 that share the state" if _sharing_state(setting) == 1 else ""),
    )


def _step_basis(step: StepForecast) -> Basis:
    return Basis("step", text(step.seconds.median, Dimension.TIME), "forecast", step.basis)


def _cores(setting: Setting) -> tuple[float, Basis]:
    if setting.cores is not None:
        return setting.cores, Basis("cores", text_of_count(setting.cores), "given", "you")
    host = setting.host
    if host is None or host.cores is None:
        raise InputError(
            "nobody says how many cores there are"
            + (f": {host.name} does not state them" if host else ""),
            looked_at=f"host {host.name}" if host else "no host was named",
            run_next="name a host (--host p4d), or give its cores (--cores 48)",
        )
    shared = f" for {setting.accelerators} accelerators" if setting.accelerators > 1 else ""
    return host.cores.value, _basis("cores", f"{host.cores.value:g}{shared}", host.cores)


def _op_stages(setting: Setting, bases: list[Basis], unknown: list[str]) -> list[StageCost]:
    """CORES costs of the operations in their order, each scaled by the pixels that it sees."""
    if setting.cpu_s is not None:
        bases.append(Basis("loading", text(setting.cpu_s, Dimension.TIME), "given", "you"))
        return [_cpu_stage("loading", setting.cpu_s, None, "given", band=1.0)]
    if not setting.ops:
        unknown.append("CPU a sample: no operations are known for this data set")
    stages = []
    pixels = _value(setting.dataset.pixels if setting.dataset else None)
    stored = stored_bytes(setting)
    is_repeatable = True
    for op in setting.ops:
        seconds = op.core_s.value
        if op.pixels is not None and pixels is not None:
            seconds *= pixels / op.pixels
        elif op.sample_bytes is not None and stored is not None:
            seconds *= stored / op.sample_bytes
        # What follows the first random operation differs every epoch, whatever it does itself.
        is_repeatable = is_repeatable and op.op in (Op.DECODE, Op.TOKENISE)
        name = op.name.partition("@")[0]
        stages.append(_cpu_stage(name, seconds, is_repeatable, op.core_s.kind.value, band=OP_BAND))
        bases.append(_basis(name, text(seconds, Dimension.TIME), op.core_s))
        if op.op is Op.RESIZE:
            pixels = pixels_of(setting.model) or pixels
    return stages


def _cpu_stage(
    name: str, seconds: float, deterministic: bool | None, source: str, *, band: float
) -> StageCost:
    return StageCost(
        stage=name,
        resource=Resource.CORES,
        per_sample=Spread(seconds, seconds / band, seconds * band),
        deterministic=deterministic,
        source=source,
    )


def _copy_stage(
    setting: Setting, sample_bytes: float | None, bases: list[Basis]
) -> list[StageCost]:
    """A worker's writing of the finished sample into memory shared with the training process."""
    copy = setting.worker_copy
    if copy is None or sample_bytes is None or setting.workers == 0:
        return []
    seconds = sample_bytes / copy.bytes_per_s.value
    bases.append(_basis("hand-on", text(seconds, Dimension.TIME), copy.bytes_per_s))
    return [_cpu_stage("hand-on", seconds, False, copy.bytes_per_s.kind.value, band=OP_BAND)]


def _cached(setting: Setting, bases: list[Basis]) -> float:
    if setting.cached is not None:
        bases.append(Basis("in page cache", f"{setting.cached:.0%}", "given", "you"))
        return setting.cached
    if setting.is_first_epoch:
        bases.append(Basis("in page cache", "0%", "given", "the first epoch reads everything"))
        return 0.0
    memory = _value(setting.host.memory_bytes if setting.host else None)
    samples = _value(setting.dataset.samples if setting.dataset else None)
    stored = stored_bytes(setting)
    if memory is None or samples is None or stored is None:
        return 0.0
    share = cached_share(CACHE_OF_MEMORY * memory, samples * stored)
    bases.append(
        Basis(
            "in page cache",
            f"{share:.0%}",
            "derived",
            f"{text(samples * stored, Dimension.BYTES)} of data, "
            f"{text(memory, Dimension.BYTES)} of memory, from the second epoch on",
        )
    )
    return share


def _read_stage(
    setting: Setting, share: float, bases: list[Basis], unknown: list[str]
) -> list[StageCost]:
    """Seconds in which a worker waits for its own request, the page cache's share left out."""
    storage, stored = setting.storage, stored_bytes(setting)
    if storage is None:
        unknown.append("storage: none was named, so it bounds nothing here")
        return []
    rate = storage.bytes_per_s_per_request or storage.bytes_per_s
    if storage.bytes_per_s is None and storage.reads_per_s is None:
        unknown.append(f"storage: neither bytes nor reads a second of {storage.name} are known")
    wait = _value(storage.latency_s) or 0.0
    if rate is not None and stored is not None:
        wait += stored / rate.value
    for what, found in (
        ("storage bytes/s", storage.bytes_per_s),
        ("storage reads/s", storage.reads_per_s),
        ("storage latency", storage.latency_s),
    ):
        if found is not None:
            bases.append(_basis(what, f"{found.value:,.6g}", found))
    missed = wait * (1 - share)
    if missed <= 0:
        return []
    return [
        StageCost(
            stage="read",
            resource=Resource.STORAGE,
            per_sample=Spread.exact(missed),
            deterministic=True,
            source=storage.name,
        )
    ]


def _store_rate(setting: Setting) -> float | None:
    """Bytes a second of the host, whose link to the store may be narrower than it."""
    store, host = setting.storage, setting.host
    if store is None:
        return None
    wire = None
    if host is not None and store.shared:
        wire = host.network_bytes_per_s
    elif host is not None and store.volume:
        wire = host.volume_bytes_per_s
    known = [rate.value for rate in (store.bytes_per_s, wire) if rate is not None]
    return min(known, default=None)


def _slots(storage: Storage | None) -> int | None:
    slots = _value(storage.slots if storage else None)
    return None if slots is None else int(slots)


def _transfer(
    setting: Setting, sample_bytes: float | None, bases: list[Basis], unknown: list[str]
) -> tuple[float, float | None]:
    """Seconds a step of copying pinned memory to the device, and the link's rate."""
    if setting.link is None or sample_bytes is None:
        unknown.append("link: " + ("none is known" if setting.link is None else "bytes a sample"))
        return 0.0, None
    rate = setting.link.pinned_bytes_per_s or setting.link.bytes_per_s
    bases.append(_basis("link", text(rate.value, Dimension.BYTE_RATE), rate))
    return setting.batch * sample_bytes / rate.value, rate.value


def _hand_off(setting: Setting, sample_bytes: float | None, bases: list[Basis]) -> float:
    link = setting.hand_off
    if link is None or sample_bytes is None:
        return 0.0
    bases.append(
        _basis("hand-off", text(link.bytes_per_s.value, Dimension.BYTE_RATE), link.bytes_per_s)
    )
    return setting.batch * sample_bytes / link.bytes_per_s.value


def _basis(what: str, value: str, number: Sourced) -> Basis:
    return Basis(what, value, number.kind.value, number.source)


def _value(number: Sourced | None) -> float | None:
    return None if number is None else number.value
