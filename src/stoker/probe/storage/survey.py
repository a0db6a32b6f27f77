"""`stoker storage PATH`, measured: every way of reading what lies there, cold and warm.

Runs in the parent. Bounded by time and bytes; writes only a nameless scratch file, and only when
it may and there is nothing to read.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from stoker import clocks
from stoker.errors import InputError
from stoker.probe.storage.evaluate import (
    access_rate,
    access_spread,
    accesses,
    fit_accesses,
    rate_points,
)
from stoker.probe.storage.filesystem import Mounted, mounted
from stoker.probe.storage.inventory import FoundFile, Inventory, open_times, take_inventory
from stoker.probe.storage.phase import COLD, WARM, Bounds, Phase, Reads
from stoker.probe.storage.reading import Store
from stoker.probe.storage.scaling import classify_scaling
from stoker.probe.storage.scratch import scratch_file
from stoker.probe.storage.steps import (
    FILES,
    MB,
    PARALLEL,
    PART,
    RANDOM_SIZES,
    SEQUENTIAL,
    Step,
    random_name,
    steps_for,
)
from stoker.records.storage import (
    AccessTest,
    FileSystem,
    RatePoint,
    ReadFit,
    StorageReport,
    StoreScaling,
    Temperature,
)
from stoker.stats import Spread, bootstrap, median_spread

_SCRATCH_BYTES = 256 * MB
# Shares of the time: for the inventory, for opening files, for writing the scratch file.
_INVENTORY_SHARE = 0.1
_OPENING_SHARE = 0.02
_SCRATCH_SHARE = 0.2
_MOST_OPENED = 500
_MOST_ALONE = 1000
_MOST_TOGETHER = 10_000


class SurveyPlan(NamedTuple):
    """What a survey may use up, and with how many readers it tries."""

    seconds: float = 15.0
    most_bytes: int = 1024 * MB
    readers: tuple[int, ...] = (1, 2, 4, 8, 16)
    allow_write: bool = False


# Called with what comes next, the share that is done and the seconds that may be left.
Listener = Callable[[str, float, float], None]


class _Material(NamedTuple):
    """What there is to read."""

    files: Sequence[FoundFile]
    scratch_bytes: int  # of the only file, when it was written for this


def survey(
    path: str,
    plan: SurveyPlan,
    *,
    on_step: Listener | None = None,
    store: Store | None = None,
    clock: Callable[[], float] = clocks.wall_s,
) -> StorageReport:
    """Measure the store behind `path`, a file or a folder.

    Raises InputError for a path that is missing, unreadable, neither file nor folder, or holds
    nothing to read (and may not be written to).
    """
    began_s = clock()
    inventory = _inventory(path, seconds=_INVENTORY_SHARE * plan.seconds, clock=clock)
    place = mounted(path)
    with ExitStack() as stack:
        material = _material(path, inventory, plan, stack, clock)
        opening = open_times(
            () if material.scratch_bytes else material.files[:_MOST_OPENED],
            seconds=_OPENING_SHARE * plan.seconds,
            clock=clock,
        )
        metadata = _metadata_tests(inventory, list(opening))
        reads = Reads(
            Bounds(plan.seconds - (clock() - began_s), plan.most_bytes),
            store=store,
            clock=clock,
            never_cold=place.never_cold,
        )
        steps, skipped = steps_for(material.files, plan.readers)
        phases = list(_run(steps, reads, plan, on_step))
    cold, warm = _fit(phases, COLD), _fit(phases, WARM)
    points = rate_points([phase for phase in phases if phase.name == PARALLEL])
    return StorageReport(
        path=path,
        file_system=_record(place),
        files=len(inventory.files),
        file_bytes=sum(file.size for file in inventory.files),
        tests=(*metadata, *map(_access_test, _shown(phases))),
        parallel_bytes=round(points[0].bytes_per_request or 0) if points else None,
        parallel=points,
        scaling=_scaling(phases, points, cold or warm),
        cold_fit=cold,
        warm_fit=warm,
        cold_impossible=reads.never_cold,
        scratch_bytes=material.scratch_bytes,
        bytes_read=reads.bytes_read,
        seconds=clock() - began_s,
        skipped=(
            *inventory.skipped,
            *([] if inventory.is_complete else ["some folders were not listed: too many files"]),
            *skipped,
            *_not_reached(steps, phases, reads),
            *_left_out(reads),
        ),
    )


def _inventory(path: str, *, seconds: float, clock: Callable[[], float]) -> Inventory:
    try:
        if Path(path).is_dir():
            return take_inventory(path, seconds=seconds, clock=clock)
        facts = Path(path).stat()
        if not Path(path).is_file():
            raise InputError(
                f"{path} is neither a file nor a folder",
                looked_at=str(Path(path).absolute()),
                run_next="stoker storage FOLDER, the one that holds the data",
            )
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror}",
            looked_at=str(Path(path).absolute()),
            run_next="ls -ld on it and the folders above it shows who may; then stoker storage "
            "with a path that you may read",
        ) from error
    files = (FoundFile(path, facts.st_size),) if facts.st_size else ()
    return Inventory(files, (), (), is_complete=True, skipped=())


def _material(
    path: str,
    inventory: Inventory,
    plan: SurveyPlan,
    stack: ExitStack,
    clock: Callable[[], float],
) -> _Material:
    """The files found, or else a scratch file that goes with `stack`."""
    if inventory.files:
        return _Material(inventory.files, 0)
    seen = f"{Path(path).absolute()}: {'; '.join(inventory.skipped) or 'no files'}"
    if not plan.allow_write or not Path(path).is_dir():
        raise InputError(
            f"{path} holds nothing to read",
            looked_at=seen,
            run_next="stoker storage --allow-write FOLDER writes a file there, reads it and "
            "removes it",
        )
    free = os.statvfs(path)
    # A tenth of what is free: nobody's job should fail because of a measurement.
    most_bytes = min(_SCRATCH_BYTES, plan.most_bytes // 4, free.f_bavail * free.f_frsize // 10)
    try:
        file = stack.enter_context(
            scratch_file(path, most_bytes, seconds=_SCRATCH_SHARE * plan.seconds, clock=clock)
        )
    except OSError as error:
        raise InputError(
            f"{path} takes no scratch file: {error.strerror}",
            looked_at=seen,
            run_next="stoker storage with a folder that holds files, or that you may write to",
        ) from error
    return _Material([FoundFile(file.path, file.size)], file.size)


def _run(
    steps: Sequence[Step], reads: Reads, plan: SurveyPlan, on_step: Listener | None
) -> Iterator[Phase]:
    for index, step in enumerate(steps):
        temperature = step.temperature
        # Several readers can be compared on cached files too.
        if step.name == PARALLEL and reads.never_cold:
            temperature = WARM
        if on_step:
            on_step(step.told, index / len(steps), reads.left.seconds)
        phase = reads.run(
            step.name,
            step.supply,
            readers=step.readers,
            temperature=temperature,
            manner=step.manner,
            bounds=Bounds(
                step.share * plan.seconds,
                int(step.share * plan.most_bytes),
                # Levels are watched as long as there is time: some allowances last a while.
                most_accesses=_MOST_TOGETHER if step.name == PARALLEL else _MOST_ALONE,
            ),
        )
        if phase is not None:
            yield phase


def _fit(phases: Sequence[Phase], temperature: str) -> ReadFit | None:
    """From random reads, which differ in size by nature, or else from whole and parts of files."""
    at_random = [
        access
        for size in RANDOM_SIZES
        for access in accesses(phases, random_name(size), temperature)
    ]
    of_files = [access for name in (FILES, PART) for access in accesses(phases, name, temperature)]
    return fit_accesses(at_random) or fit_accesses(of_files)


def _scaling(
    phases: Sequence[Phase], points: Sequence[RatePoint], fit: ReadFit | None
) -> StoreScaling | None:
    """The kind of store; how the rate of one reader moved before belongs to its story in time."""
    if not points:
        return None
    size = points[0].bytes_per_request
    temperature = next(phase.temperature for phase in phases if phase.name == PARALLEL)
    alone = [
        phase
        for phase in phases
        if phase.temperature == temperature and phase.name not in (SEQUENTIAL, PARALLEL)
    ]
    return classify_scaling(
        (*rate_points(alone), *points),
        fixed_share=fit.fixed_share(size) if fit and size else None,
    )


def _shown(phases: Sequence[Phase]) -> list[Phase]:
    """The tests of their own, rounds put together; other phases serve the fit and the scaling."""
    kinds: dict[tuple[str, str], list[Phase]] = {}
    for phase in phases:
        if phase.name not in (PARALLEL, PART):
            kinds.setdefault((phase.name, phase.temperature), []).append(phase)
    names = list(dict.fromkeys(name for name, _ in kinds))
    return [
        rounds[0]._replace(bursts=tuple(burst for phase in rounds for burst in phase.bursts))
        for name in names
        for temperature in (COLD, WARM)
        if (rounds := kinds.get((name, temperature)))
    ]


def _access_test(phase: Phase) -> AccessTest:
    served = [access for burst in phase.bursts for access in burst.accesses]
    spread = access_spread(served)
    assert spread is not None  # a phase has at least one access
    return AccessTest(
        name=phase.name,
        temperature=Temperature(phase.temperature),
        readers=phase.readers,
        accesses=len(served),
        bytes_read=sum(access.length for access in served),
        wall_s=sum(burst.wall_s for burst in phase.bursts),
        access=spread,
        open=median_spread([access.open_s for access in served]) if phase.name == FILES else None,
        accesses_per_s=access_rate(phase),
        cached_share=phase.cached_share,
    )


def _metadata_tests(inventory: Inventory, opening: Sequence[float]) -> list[AccessTest]:
    """Listing, looking up and opening as found: nobody can evict metadata without root."""
    named = (("list", inventory.listing_s), ("stat", inventory.stat_s), ("open", opening))
    return [
        AccessTest(
            name=name,
            temperature=None,
            readers=1,
            accesses=len(times),
            bytes_read=0,
            wall_s=sum(times),
            access=median_spread(times),
            accesses_per_s=_inverse(bootstrap(times)),
        )
        for name, times in named
        if times
    ]


def _inverse(period: Spread) -> Spread:
    high = 1 / period.low if period.low > 0 else math.inf
    return Spread(1 / period.median, max(0.0, 1 / period.high), high, period.count)


def _not_reached(steps: Sequence[Step], phases: Sequence[Phase], reads: Reads) -> list[str]:
    """Tests that the bounds left no room for."""
    done = {(phase.name, phase.readers) for phase in phases}
    missed = [
        step.told
        for step in steps
        if (step.name, step.readers) not in done
        and not (step.temperature == COLD and reads.never_cold)
    ]
    told = ", ".join(dict.fromkeys(missed))
    return [f"time or bytes were used up before: {told}"] if missed else []


def _left_out(reads: Reads) -> list[str]:
    texts = []
    if reads.stuck and not reads.never_cold:
        texts.append(f"{reads.stuck} reads were left out: their pages stayed in the page cache")
    if reads.failures:
        texts.append(f"{len(reads.failures)} reads failed, the first: {reads.failures[0]}")
    return texts


def _record(place: Mounted) -> FileSystem:
    return FileSystem(
        kind=place.kind,
        source=place.source,
        mount_point=place.mount_point,
        is_network=place.is_network,
        is_memory=place.is_memory,
    )
