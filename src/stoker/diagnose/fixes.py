"""FIXES: what can be done, each with the change of the scenario that it is forecast by.

A fix's gain is `pipeline.gain(before, after)`; of the two that only change the queue, which no mean
tells, it is what `queueing` simulates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stoker.diagnose import charges
from stoker.diagnose.case import Case
from stoker.diagnose.changes import (
    BATCH_FACTOR,
    any_order,
    cache_local,
    cache_ram,
    deeper_queue,
    device_augment,
    flat,
    flat_storage,
    kept_open,
    larger_batch,
    larger_shm,
    masks_differ,
    more_cores,
    one_thread,
    persistent,
    pinned_async,
    read_once,
    rechunked,
    shard,
    side_by_side,
    smaller_payload,
    stored_once,
    vectorised,
    without_items,
    without_python,
)
from stoker.diagnose.charges import Charging
from stoker.diagnose.operations import (
    captured,
    dearest,
    decode_scale,
    how_to_reduce,
    how_to_replace,
    kept_memory,
    reduced_decode,
    replace_op,
)
from stoker.diagnose.queueing import deeper
from stoker.diagnose.waste import access, rechunk
from stoker.diagnose.wording import cores
from stoker.diagnose.worker_counts import best_workers, fewer_workers, fewest, more_workers, overlap
from stoker.records.diagnosis import FixCode
from stoker.records.profile import OWN_LOADER, THREADS
from stoker.records.scenario import Scenario


@dataclass(frozen=True)
class Fix:
    """One thing that can be done; effort 1 a setting, 2 a few lines, 3 other data or machines.

    `costs` says what it costs in words, `charge` in bytes and minutes.
    """

    code: FixCode
    title: str | Callable[[Case], str]
    effort: int
    after: Callable[[Case], Scenario | None]
    how: str | Callable[[Case], str]
    costs: str | Callable[[Case], str]
    preconditions: tuple[str, ...] = ()
    charge: Charging = charges.nothing

    def title_for(self, case: Case) -> str:
        """What the fix is, in the words of this run."""
        return self.title if isinstance(self.title, str) else self.title(case)

    def how_for(self, case: Case) -> str:
        """How it is done, in the words of this run."""
        return self.how if isinstance(self.how, str) else self.how(case)

    def costs_for(self, case: Case) -> str:
        """What it costs, in the words of this run."""
        return self.costs if isinstance(self.costs, str) else self.costs(case)


def _workers(case: Case) -> str:
    return "threads" if case.facts.loader.start_method == THREADS else "worker processes"


def _is_own(case: Case) -> bool:
    """True for a stoker.Loader, whose arguments have other names."""
    return case.facts.loader.dataset == OWN_LOADER


def _with_count(case: Case, count: int) -> str:
    """The argument that gives the loader so many workers."""
    if _is_own(case):
        return f"stoker.Loader(…, threads={count})"
    return f"DataLoader(…, num_workers={count})"


def _how_to_pack(case: Case) -> str:
    """The command, and where the cut is when the doctor saw a random operation."""
    loader = case.facts.profile.loader
    first_random = loader.random_op if loader else None
    stays = f"{first_random} and what follows it" if first_random else "what is random"
    if loader is None or loader.iterable or loader.watched is not None:
        return (
            "stoker pack DATA PACK stores samples as they are before the first random operation "
            f"({stays} stays); --plan first says what it gives"
        )
    if case.facts.draws_itself and not loader.cut:
        return (
            f"make a transform of what is random in {first_random}: a Dataset is cut between "
            "calls. Then stoker pack --from DIAGNOSIS PACK; or stoker pack PICTURES PACK as they "
            "are, and what is random in stoker.Loader(PACK, crop=…, augment=…)"
        )
    cut = f" ({loader.cut})" if loader.cut else f" ({stays} stays)"
    return (
        "stoker pack --from DIAGNOSIS PACK stores samples as they are before the first random "
        f"operation{cut}; stoker run --apply pack=PACK then reads them"
    )


def _how_to_flatten(case: Case) -> str:
    if case.facts.kept_bytes is not None:
        return (
            "one memory-mapped array that all workers share, or a cache with a bound: "
            "functools.lru_cache(maxsize=N)"
        )
    return "one bytes buffer with offsets, or numpy arrays; they are never copied by reading"


def _costs_of_a_pack(case: Case) -> str:
    """Where no sample was seen as it is stored, its size is reckoned by finished ones."""
    space = "disk space"
    if case.facts.loader.packed_bytes is None and charges.samples_on_disk(case).disk_bytes:
        space += " (reckoned by finished samples: too much where these are floats made of uint8)"
    return f"{space}, and one pass over the data"


FIXES: tuple[Fix, ...] = (
    Fix(
        code=FixCode.OVERLAP,
        title=lambda case: (
            "make the next batch while the step runs"
            if case.facts.loader.watched
            else "load in worker processes while the step runs"
        ),
        effort=1,
        after=overlap,
        how=lambda case: (
            "a thread or process that fills a queue.Queue(2), or the library's own: .prefetch(2)"
            if case.facts.loader.watched
            else f"DataLoader(…, num_workers={best_workers(case)})"
        ),
        costs="memory of the worker processes",
        preconditions=(
            "the data set can be pickled or forked",
            "the order of random numbers changes",
        ),
        charge=charges.workers,
    ),
    Fix(
        code=FixCode.WORKERS,
        title=lambda case: f"more {_workers(case)}",
        effort=1,
        after=more_workers,
        how=lambda case: _with_count(case, best_workers(case)),
        costs="memory of the further workers",
        preconditions=("shared memory and RAM for the further workers",),
        charge=charges.workers,
    ),
    Fix(
        code=FixCode.FEWER_WORKERS,
        title=lambda case: f"fewer {_workers(case)}",
        effort=1,
        after=fewer_workers,
        how=lambda case: _with_count(case, fewest(case)),
        costs="nothing",
    ),
    Fix(
        code=FixCode.PACK,
        title="store once what gives the same result each time, and read that",
        effort=3,
        after=stored_once,
        how=_how_to_pack,
        costs=_costs_of_a_pack,
        preconditions=("the deterministic part does not change between runs",),
        charge=charges.samples_on_disk,
    ),
    Fix(
        code=FixCode.REDUCED_DECODE,
        title=lambda case: f"decode at 1/{decode_scale(case) or 2} of the sides, from the file on",
        effort=2,
        after=reduced_decode,
        how=how_to_reduce,
        costs="samples differ by a few grey levels from those decoded in full and resized",
        preconditions=(
            "pictures are resized as a whole, or crops stay larger than what they are resized to",
        ),
    ),
    Fix(
        code=FixCode.CACHE_RAM,
        title="keep decoded samples in memory",
        effort=2,
        after=cache_ram,
        how="keep what comes before the first random operation in a shared array",
        costs="memory for all samples",
        preconditions=("all decoded samples fit into memory",),
        charge=charges.samples_in_memory,
    ),
    Fix(
        code=FixCode.DEVICE_AUGMENT,
        title="do the random operations on the device, on whole batches",
        effort=2,
        after=device_augment,
        how="return uint8 from the data set and augment the batch after .to(device)",
        costs="a little time on the device",
        preconditions=("the operations exist for batches on the device",),
    ),
    Fix(
        code=FixCode.REPLACE_OP,
        title=lambda case: f"a faster way for {(dearest(case) or ('the dearest operation',))[0]}",
        effort=3,
        after=replace_op,
        how=how_to_replace,
        costs="another library; its results may differ a little",
        preconditions=("the results are near enough for the training",),
    ),
    Fix(
        code=FixCode.SHARD,
        title="few large files, read in sequence",
        effort=3,
        after=shard,
        how="write samples into shards of 100 MB or more; shuffle shards and a window",
        costs="disk space for a copy, and one pass over the data",
        charge=charges.files_again,
    ),
    Fix(
        code=FixCode.CACHE_LOCAL,
        title="copy the files to a local disk on first use",
        effort=2,
        after=cache_local,
        how="read through a local copy; the first epoch is as slow as now",
        costs="local disk space for the data set",
        charge=charges.files_copied,
    ),
    Fix(
        code=FixCode.CPU_ALLOCATION,
        title="get more cores from the launcher, scheduler or container",
        effort=2,
        after=more_cores,
        how=lambda case: (
            f"ask for {cores(max(1.0, (case.facts.cores_needed or 0.0) + 1))} cores "
            f"(now {cores(case.facts.cores_usable)}): --cpus-per-task, cpu limit, taskset"
        ),
        costs="cores",
    ),
    Fix(
        code=FixCode.PERSISTENT_WORKERS,
        title="keep the workers between epochs",
        effort=1,
        after=persistent,
        how="DataLoader(…, persistent_workers=True)",
        costs="memory of the workers between epochs",
        preconditions=("nothing in the data set must be made anew for each epoch",),
        charge=charges.kept_workers,
    ),
    Fix(
        code=FixCode.NATIVE_THREADS,
        title="one native thread in each worker",
        effort=1,
        after=one_thread,
        how="worker_init_fn: torch.set_num_threads(1), cv2.setNumThreads(1); OMP_NUM_THREADS=1",
        costs="nothing",
    ),
    Fix(
        code=FixCode.ALLOCATOR,
        title="let the workers keep the memory that they free",
        effort=1,
        after=kept_memory,
        how="stoker run --apply allocator; or in the script's environment "
        "MALLOC_MMAP_THRESHOLD_=33554432 MALLOC_TRIM_THRESHOLD_=536870912",
        costs="memory that workers would have given back",
        preconditions=("the C library is glibc",),
    ),
    Fix(
        code=FixCode.BATCHED_FETCH,
        title="fetch a whole batch in one call",
        effort=2,
        after=without_items,
        how="give the data set __getitems__(indices), or index arrays with a BatchSampler",
        costs="nothing",
        preconditions=("the data can be indexed by many positions at once",),
    ),
    Fix(
        code=FixCode.VECTORISE_COLLATE,
        title="build the batch from arrays, not element by element",
        effort=2,
        after=vectorised,
        how="return numpy arrays from the data set; torch.from_numpy(numpy.stack(…)) in collate_fn",
        costs="nothing",
    ),
    Fix(
        code=FixCode.ACCESS_PATTERN,
        title=lambda case: access(case.facts).title,
        effort=2,
        after=read_once,
        how=lambda case: access(case.facts).how,
        costs=lambda case: access(case.facts).costs,
    ),
    Fix(
        code=FixCode.RECHUNK,
        title=lambda case: rechunk(case.facts).title,
        effort=3,
        after=rechunked,
        how=lambda case: rechunk(case.facts).how,
        costs=lambda case: rechunk(case.facts).costs,
        charge=charges.files_again,
    ),
    Fix(
        code=FixCode.RESTORE_AFFINITY,
        title="give the workers the mask of their parent",
        effort=1,
        after=lambda case: more_cores(case) if masks_differ(case) else None,
        how="worker_init_fn: os.sched_setaffinity(0, mask of the parent)",
        costs="nothing",
    ),
    Fix(
        code=FixCode.PREFETCH_DEPTH,
        title="a deeper queue of ready batches",
        effort=1,
        after=deeper_queue,
        how=lambda case: (
            "stoker.Loader(…, memory_bytes=…): its queue grows by itself, within that"
            if _is_own(case)
            else f"DataLoader(…, prefetch_factor={deeper(case.facts)})"
        ),
        costs="shared memory for the batches that lie ready",
        preconditions=("shared memory for the deeper queue",),
        charge=charges.deeper_queue,
    ),
    Fix(
        code=FixCode.UNORDERED,
        title="take batches in the order in which they are finished",
        effort=1,
        after=any_order,
        how="DataLoader(…, in_order=False)",
        costs="the order of batches changes from run to run",
    ),
    Fix(
        code=FixCode.SYNC_LESS,
        title="read results back rarely",
        effort=1,
        after=side_by_side,
        how="keep the loss on the device (loss.detach()), and read it every 50 steps",
        costs="nothing",
    ),
    Fix(
        code=FixCode.HOST_WORK_LESS,
        title="do the host's work in the loop rarely, or vectorised",
        effort=2,
        after=without_python,
        how="compute the metric on tensors, or every 50 steps",
        costs="nothing",
    ),
    Fix(
        code=FixCode.METRIC_ON_DEVICE,
        title="compute the metric on the device, and less often",
        effort=2,
        after=without_python,
        how=(
            "(predicted == wanted).sum() stays a tensor, read once an epoch; validate every n-th "
            "epoch, or on a subset"
        ),
        costs="the score is known less often",
    ),
    Fix(
        code=FixCode.LARGER_BATCH,
        title="a larger batch spreads the fixed cost of a step",
        effort=1,
        after=larger_batch,
        how=lambda case: f"batch_size={case.facts.batch_size * BATCH_FACTOR}",
        costs="device memory; the learning rate must follow",
        preconditions=("training still converges at the larger batch",),
    ),
    Fix(
        code=FixCode.GRAPH_CAPTURE,
        title="record the step once, and launch it as a whole",
        effort=2,
        after=captured,
        how='torch.compile(model, mode="reduce-overhead"), or torch.cuda.graphs around the step',
        costs="device memory for the recorded step; minutes of compiling at the start",
        preconditions=(
            "every batch has the same shapes: drop_last=True",
            "nothing in the step waits for the device or branches on its results",
        ),
    ),
    Fix(
        code=FixCode.SMALLER_PAYLOAD,
        title="fewer bytes to hand over",
        effort=2,
        after=smaller_payload,
        how="return uint8 from the data set; convert and normalise on the device",
        costs="the conversion on the device",
    ),
    Fix(
        code=FixCode.REOPEN_HANDLE,
        title="open a file or archive once in each worker",
        effort=2,
        after=kept_open,
        how="keep the handle in the data set, opened on the first sample of each worker",
        costs="open files; a handle must not be shared over fork",
    ),
    Fix(
        code=FixCode.SHM_SIZE,
        title="a larger shared-memory file system",
        effort=1,
        after=larger_shm,
        how="docker run --shm-size=…, or an emptyDir of medium Memory at /dev/shm",
        costs="memory, as far as it is used",
        charge=charges.shared_memory,
    ),
    Fix(
        code=FixCode.FLAT_STORAGE,
        title="flat arrays in place of many Python objects",
        effort=2,
        after=flat_storage,
        how=_how_to_flatten,
        costs="nothing",
    ),
    Fix(
        code=FixCode.CHECK_CLOCKS,
        title="look at clocks, temperature and other load",
        effort=1,
        after=flat,
        how="nvidia-smi -q -d CLOCK,TEMPERATURE,PERFORMANCE",
        costs="nothing",
    ),
    Fix(
        code=FixCode.CHECK_PEER,
        title="look at the loader of the slowest rank",
        effort=1,
        after=flat,
        how="stoker doctor -- torchrun … measures every rank",
        costs="nothing",
    ),
    Fix(
        code=FixCode.PINNED_ASYNC,
        title="pinned memory, asynchronous copy, next batch early: as one change",
        effort=2,
        after=pinned_async,
        how=lambda case: (
            "stoker.Loader(…, device=…), whose batches are there already"
            if _is_own(case)
            else "DataLoader(…, pin_memory=True); batch.to(device, non_blocking=True) for the next "
            "batch before the step of this one"
        ),
        costs="pinned memory for two batches",
        charge=charges.early_batches,
    ),
)

BY_CODE = {fix.code: fix for fix in FIXES}
