"""The raw lines of a session become a Profile. Runs in the parent; concludes nothing."""

from __future__ import annotations

import itertools
import math
import platform
import statistics
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from stoker.probe.decoded_reading import read_decoded
from stoker.probe.device_reading import read_device
from stoker.probe.epoch_reading import epoch_means, read_epochs, real_step, whole_epochs
from stoker.probe.leg_reading import Steps, drains, read_sizes
from stoker.probe.rank_reading import loader_cores, read_ranks
from stoker.probe.sample_reading import cost_trend, slowest_samples
from stoker.probe.stage_lines import batch_seconds, stage_lines, worker_lines
from stoker.probe.stage_reading import (
    read_amplification,
    read_scaling,
    read_stages,
)
from stoker.probe.storage.evaluate import evaluate_reads
from stoker.probe.trainer_lines import Line, Trainer, read_trainers
from stoker.probe.trial_reading import read_candidates, read_trials
from stoker.records.profile import (
    THREADS,
    BatchTimes,
    End,
    Environment,
    HostTruth,
    Leg,
    LegCode,
    LoaderFacts,
    MemoryGrowth,
    Place,
    Profile,
    ReadCost,
    Script,
    StepInside,
)
from stoker.stats import warmup_end

# A batch was there when asked for if handing it over took less than this, or this share of a step:
# unpickling and mapping what lies ready takes a fraction of a millisecond per megabyte.
_READY_S = 0.001
_READY_SHARE = 0.05
# Of single batches so many are kept: the mean of a heavy tail is known to a few per cent by them.
_MOST_BATCHES = 2_000


def _host(trainer: Trainer, others: list[Trainer], folder: Path, facts: Line) -> HostTruth:
    """What this process owns; `others` train beside it, which is nobody else's doing."""
    host = dict(trainer.last("host") or facts)
    host.pop("kind", None)
    if masks := _worker_masks(trainer, folder):
        # Workers that are bound to one core each have as many as there are, of other numbers of
        # them as well: a mask that is the same for all does not grow with them.
        # Those that were met in the loop may have been bound since: in `__iter__`, for one.
        late = host.get("worker_affinity") or math.inf
        is_late = late < min(map(len, masks))
        host["worker_affinity"] = late if is_late else len(set().union(*masks))
    cores = [w["job_cores"] for w in trainer.of("window") if w["job_cores"] is not None]
    if cores:
        host["busy_of_owned"] = min(1.0, statistics.fmean(cores) / host["cores_owned"])
    # The median of the drains: one of a few hundredths of a second meets whatever runs just then.
    drained = _known(line["foreign_cores"] for line in trainer.of("drain") if line["what"] == "L")
    looped = _known(window.get("foreign_cores") for window in trainer.of("window"))
    seen = [statistics.median(drained)] if drained else []
    seen += [statistics.fmean(looped)] if looped and not others else []
    if seen:
        beside = sum(map(loader_cores, others))
        host["foreign_cores"] = max(0.0, max(seen) - beside)
    batch, loader = trainer.last("batch"), trainer.of("training-loader")[-1]
    has_processes = _start_method(trainer, loader) not in (None, THREADS)
    if batch and has_processes and not host["shm_needed_bytes"]:
        depth = loader["workers"] * (loader["prefetch_factor"] or 2)
        host["shm_needed_bytes"] = batch["bytes"] * depth
    return msgspec.convert(host, HostTruth)


def _worker_masks(trainer: Trainer, folder: Path) -> list[list[int]]:
    """The CPUs that each worker was bound to.

    The script's own function may bind them; of leg N's workers it makes none ready.
    """
    workers = [line for line in worker_lines(folder, trainer.pid) if line["kind"] == "worker"]
    prepared = [line for line in workers if line["is_prepared"]]
    return [line["cpus"] for line in prepared or workers]


def _worker_notes(trainer: Trainer, folder: Path, timed: Iterable[Line]) -> list[str]:
    """What workers say of themselves that no number tells."""
    notes = [note for line in timed for note in line.get("notes", ())]
    masks = _worker_masks(trainer, folder)
    each, together = min(map(len, masks), default=0), len(set().union(*masks))
    if each < together:
        notes.append(
            f"workers are bound to cores of their own: {each} of {together} is all that one has"
        )
    return notes


def _start_method(trainer: Trainer, loader: Line) -> str | None:
    """As leg L had it, where the loader itself found out only later than it began."""
    own = [line for line in trainer.of("drain") if line["what"] == "L"]
    seen = [line.get("start_method") for line in own if line["workers"] == loader["workers"]]
    found: str | None = seen[-1] if seen and seen[-1] else loader["start_method"]
    return found


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _inside(trainer: Trainer) -> StepInside | None:
    """What the stack samples say."""
    line = trainer.last("inside")
    if line is None or not line["samples"]:
        return None
    states = {name.replace("-", "_"): share for name, share in line["states"].items()}
    places = tuple(msgspec.convert(place, Place) for place in line["places"])
    return StepInside(samples=line["samples"], places=places, **states)


def _memory(trainer: Trainer) -> MemoryGrowth | None:
    """Growth between the last two times that the same workers were seen under leg R."""
    told = [line for line in trainer.of("memory") if line["workers"] and line["main_bytes"]]
    seen = [line for line in told if not line["ended"]]
    if len(seen) < 2 or seen[-2]["pids"] != seen[-1]["pids"]:
        return None
    before, after = seen[-2], seen[-1]
    batches = after["batches"] - before["batches"]
    if batches <= 0:
        return None
    return MemoryGrowth(
        unique_bytes=after["unique_bytes"],
        bytes_per_batch=(after["unique_bytes"] - before["unique_bytes"]) / batches,
        main_bytes=after["main_bytes"],
        batches=after["batches"],
        lately=_lately(told),
    )


def _lately(told: list[Line]) -> float | None:
    """Growth within the last window of leg R over that within the first one, of the same workers.

    Memory that an allocator takes until it has enough grows less and less.
    """
    rates = [
        (ends["unique_bytes"] - begins["unique_bytes"]) / (ends["batches"] - begins["batches"])
        for begins, ends in itertools.pairwise(told)
        if ends["ended"] and not begins["ended"] and ends["batches"] > begins["batches"]
        if begins["pids"] == ends["pids"] == told[-1]["pids"]
    ]
    return rates[-1] / rates[0] if len(rates) > 1 and rates[0] > 0 else None


def _batches(folder: Path, trainer: Trainer, workers: int) -> BatchTimes | None:
    """What single batches of the loader cost; None where none were timed."""
    seconds = batch_seconds(folder, trainer.pid, workers) if workers else []
    return BatchTimes(workers=workers, seconds=tuple(seconds[:_MOST_BATCHES])) if seconds else None


def _twin(trainer: Trainer) -> dict[str, Any]:
    """What single samples told, under the names of LoaderFacts."""
    line = trainer.last("twin")
    if line is None:
        return {}
    return {
        "deterministic": line["random_op"] is None,
        "random_share": line["random_share"],
        "random_op": line["random_op"],
        "cut": line.get("cut"),
        "packed_bytes": line.get("packed_bytes"),
        "sample_s": line["plain_s"],
        "collate_s": line["collate_s"],
    }


def _reads(trainer: Trainer, *, needed_per_s: float | None) -> ReadCost | None:
    """Leg Q, when the loader opened files; `needed_per_s` of them for the device's pace."""
    line = trainer.last("reads")
    found = evaluate_reads(line, needed_per_s=needed_per_s) if line is not None else None
    if found is None:
        return None
    return msgspec.structs.replace(found.cost, store=found.scaling, never_cold=found.never_cold)


def read_profile(
    folder: Path,
    *,
    script: Script,
    end: End | None,
    exit_code: int,
    host_facts: Line,
    environment: Environment,
) -> Profile:
    """Everything the session's processes wrote, as one Profile of the first rank.

    `end` None takes the reason that the probe itself gave. `host_facts` stand in when the process
    did not come to write its own. Raises ValueError when no process saw a loop.
    """
    trainers = read_trainers(folder)
    if not trainers:
        raise ValueError("no training loop in the session")
    trainer = trainers[0]
    steps = Steps(trainer)
    all_timed = stage_lines(folder, trainer.pid)
    timed = [line for line in all_timed if line["workers"] == steps.workers]
    waits = steps.of("R", lambda w: w["wait"])
    real = steps.periods("R")
    # Epochs of one batch have no step between two batches of their own: the epoch is the step.
    is_epoch = not real
    real = real or epoch_means(trainer)
    discard = warmup_end(real, block=steps.block)
    real, waits = real[discard:], waits[discard:]
    device = steps.periods("D")
    host_legs = steps.periods("H")
    legs: dict[str, Leg | None] = {
        LegCode.REAL: steps.leg(LegCode.REAL, real, discarded=discard),
        LegCode.DEVICE: steps.leg(LegCode.DEVICE, device),
        LegCode.HOST: steps.leg(LegCode.HOST, host_legs),
    }
    drained = steps.of("C", lambda w: w["drained"])
    legs[LegCode.CONTENDED] = steps.leg(
        LegCode.CONTENDED,
        steps.periods("C"),
        drain=steps.spread(drained) if drained else None,
    )
    loaders = drains(trainer, steps, "L")
    legs[LegCode.LOADER] = next((leg for leg in loaders if leg.workers == steps.workers), None)
    legs[LegCode.NULL] = next(iter(drains(trainer, steps, "N")), None)
    legs[LegCode.ONE_THREAD] = next(iter(drains(trainer, steps, "T")), None)
    found = {str(code): leg for code, leg in legs.items() if leg is not None}
    mean = found[LegCode.REAL].period.median / steps.per_step if LegCode.REAL in found else 0.0
    epochs = read_epochs(
        trainer, steps, wait_s=statistics.fmean(waits) if waits else 0.0, period_s=mean
    )
    ready = [wait < max(_READY_S, _READY_SHARE * mean) for wait in waits]
    closing = trainer.last("end")
    loader_line, batch = steps.facts, trainer.last("batch") or {}
    batch_size = int(loader_line["batch_size"] or batch.get("samples") or 1)
    mean_device = statistics.fmean(device) if device else None  # of a batch
    own = [w["own_s"] for w in steps.windows if w["leg"] == "R"]
    watched = sum(sum(w["wait"]) + sum(w["compute"]) for w in steps.windows if w["leg"] == "R")
    notes = tuple(dict.fromkeys([*trainer.notes, *_worker_notes(trainer, folder, timed)]))
    if not steps.is_warm:
        notes += ("no step after the warm-up was seen: the times are those of the first steps",)
    warm = sum(len(w["wait"]) for w in steps.windows if w["leg"] == "W") + discard
    return Profile(
        script=script,
        end=end or (End(closing["reason"]) if closing else End.CRASHED),
        exit_code=exit_code,
        legs=found,
        scaling=tuple(leg for leg in loaders if leg.workers != steps.workers),
        real=(
            None
            if LegCode.REAL not in found
            else found[LegCode.REAL].period
            if is_epoch
            else real_step(
                found[LegCode.REAL], epochs, whole_epochs(trainer, steps), steps.per_step
            )
        ),
        waits=steps.spread(waits) if waits else None,
        longest_wait_s=max(waits, default=None),
        ready_share=sum(ready) / len(ready) if ready else None,
        loader=LoaderFacts(
            workers=steps.workers,
            batch_size=batch_size,
            batches_per_step=float(steps.per_step),
            prefetch_factor=loader_line["prefetch_factor"],
            persistent_workers=loader_line["persistent_workers"],
            pin_memory=loader_line["pin_memory"],
            in_order=loader_line.get("in_order", True),
            start_method=_start_method(trainer, loader_line),
            dataset=loader_line["dataset"],
            iterable=loader_line["iterable"],
            watched=loader_line.get("watched"),
            batch_bytes=int(batch.get("bytes", 0)),
            batch_objects=int(batch.get("objects", 0)),
            samples=loader_line["samples"],
            read_amplification=read_amplification(
                timed, batch.get("bytes", 0) / max(1, batch.get("samples") or 1)
            ),
            native_threads=(trainer.last("drain") or {}).get("threads"),
            **_twin(trainer),
        ),
        epochs=epochs,
        trials=read_trials(steps),
        candidates=read_candidates(trainer, steps),
        inside=_inside(trainer),
        by_size=read_sizes(steps, int(batch.get("samples") or 0)),
        memory=_memory(trainer),
        batches=_batches(folder, trainer, steps.workers),
        stages=read_stages(timed, (trainer.last("repeats") or {}).get("stages")),
        stage_scaling=read_scaling(all_timed, steps.workers),
        slowest=slowest_samples(timed),
        trend=cost_trend(timed),
        decoded=read_decoded(timed),
        reads=_reads(trainer, needed_per_s=batch_size / mean_device if mean_device else None),
        host=_host(trainer, trainers[1:], folder, host_facts),
        device=read_device(trainer.of("device"), steps.per_step),
        ranks=read_ranks(trainers),
        environment=msgspec.structs.replace(
            environment,
            python=platform.python_version(),
            versions=loader_line["versions"],
            device=loader_line["device"] or "cpu",
            emulated=loader_line["device"] == "emulated",
            world=int(loader_line["world"]),
            warmup_discarded=warm,
            overhead_share=sum(own) / watched if watched else None,
            notes=environment.notes + notes,
        ),
    )


def machine_name() -> str:
    """The processor, cores and system, in a line."""
    model = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    return f"{model}, {platform.system()} {platform.release()}, {sys.platform}"
