"""Makes a pack: hands out the samples, keeps the journal, writes the manifest when all is there.

Killed at any point, it goes on with `resume` and ends with the same bytes.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from stoker.errors import InputError, PackError
from stoker.pack import journal as journals
from stoker.pack import layout, manifest, shard
from stoker.pack.crew import Crew, Start, UnwritableError, spawned
from stoker.pack.job import Job, manifest_of
from stoker.pack.journal import Journal
from stoker.pack.manifest import BadSample, Moments, Shard
from stoker.pack.reader import Pack, open_pack
from stoker.pack.shard import ShardFrame
from stoker.pack.sources.dataset import is_in_hand
from stoker.pack.staleness import Comparison, check_up_to_date
from stoker.pack.target import make_folder
from stoker.pack.work import Chunk, ChunkDone, Seal, SealDone, add_moments
from stoker.spans import Clock, SystemClock

# Samples a task: few enough that workers end together, many enough that a message costs nothing.
CHUNK_SAMPLES = 16
# When all of the first samples are bad, the source or the settings are, not the samples.
_ALL_BAD = 64
# Room that must be left beside what will be written: journals, manifests, other programs.
_SPARE_BYTES = 64 * 10**6


class Progress(NamedTuple):
    """How far it is: samples done in this run, of all; samples a second; seconds left."""

    done: int
    samples: int
    samples_per_s: float
    left_s: float


class How(NamedTuple):
    """How to pack; none of it changes a byte of the pack.

    `max_bad`: packing stops when more samples can't be read; None goes on to the end. `part` of
    `parts`: this machine's share of the shards, to be finalized later. `start` starts a worker.
    """

    workers: int = 0
    resume: bool = False
    max_bad: int | None = None
    part: int = 0
    parts: int = 1
    on_step: Callable[[Progress], None] = lambda _progress: None
    clock: Clock = SystemClock()
    start: Start = spawned


class Packed(NamedTuple):
    """What became of it. `pack` is None for a part of several."""

    pack: Pack | None
    quarantine: tuple[BadSample, ...]
    notes: dict[str, int]
    samples: int  # packed in this run, without those that could not be read
    seconds: float
    was_whole: bool = False


def build(job: Job, folder: Path, how: How) -> Packed:
    """Make the pack in that folder, or this machine's part of it.

    Raises InputError when the folder holds something else, a pack already or half a one without
    `resume`, or when another process is at work there; PackError when a worker dies, the disk is
    full or too many samples are bad. What was finished is kept, and `resume` goes on from there.
    """
    make_folder(folder)
    existing = _existing(job, folder, how)
    if existing is not None:
        quarantine = existing.manifest.quarantine
        return Packed(existing, quarantine, notes_of(existing.shards), 0, 0.0, was_whole=True)
    journal = Journal(folder, journal_name(how))
    is_whole = False
    try:
        _take_up(job, folder, journal, how)
        started = how.clock.wall_ns()
        run = _Run(job, folder, journal, how)
        run.all()
        seconds = (how.clock.wall_ns() - started) / 1e9
        if how.parts > 1:
            done = tuple(journal.shards.values())
            return Packed(None, _bad(done), notes_of(done), run.packed, seconds)
        seal(job, folder, tuple(journal.shards.values()))
        is_whole = True
    except UnwritableError as error:
        raise _unwritable(folder, error, journal, job) from error
    except OSError as error:  # of the journal or the manifest
        full = UnwritableError(str(error), error.errno or 0)
        raise _unwritable(folder, full, journal, job) from error
    finally:
        # When nothing is finished there is nothing to go on with: the next run begins anew.
        is_void = how.parts == 1 and not journal.shards
        journal.close(remove=is_whole or is_void)
    pack = open_pack(folder)
    return Packed(pack, pack.manifest.quarantine, notes_of(pack.shards), run.packed, seconds)


def journal_name(how: How) -> str:
    """The journal of this machine's part."""
    if how.parts == 1:
        return layout.JOURNAL
    return f"journal-{how.part:05}-of-{how.parts:05}.jsonl"


def seal(job: Job, folder: Path, shards: tuple[Shard, ...]) -> None:
    """Write the manifest, then remove what it doesn't speak of."""
    manifest.sync_folder(folder)
    manifest.write(folder, manifest_of(job, (*job.kept, *shards)))
    remove_strays(folder, manifest.read(folder).shards)


def remove_strays(folder: Path, shards: tuple[Shard, ...]) -> None:
    """Remove files of shards that no manifest names: parts, and those of an older generation."""
    named = {file.name for one in shards for file in one.files}
    for path in folder.glob("shard-*"):
        if path.name not in named:
            path.unlink()


def finish_killed(folder: Path) -> bool:
    """Do what a packer that was killed behind its manifest had left to do; True if one was.

    Raises InputError when another process is at work there.
    """
    paths = _journals(folder)
    if not paths or not (folder / layout.MANIFEST).exists():
        return False
    found = manifest.read(folder)
    over = [path for path in paths if journals.is_over(path, found.generation)]
    if len(over) == len(paths):  # else files of the next generation are there, to be gone on with
        remove_strays(folder, found.shards)
    for path in over:
        path.unlink(missing_ok=True)
    return bool(over)


def _journals(folder: Path) -> list[Path]:
    return sorted(folder.glob("journal*.jsonl"))


def _existing(job: Job, folder: Path, how: How) -> Pack | None:
    """The finished pack that `resume` found; None when there is work to do."""
    finish_killed(folder)
    paths = _journals(folder)
    if job.generation > 1 and not job.frames and not paths:
        found = open_pack(folder)
        origin, before = job.origin, found.manifest.origin
        is_same = found.shards == job.kept and origin.fingerprint == before.fingerprint
        return found if is_same else None
    if (folder / layout.MANIFEST).exists() and job.generation == 1:
        found = open_pack(folder)
        if not how.resume:
            raise InputError(
                f"{folder} is a pack already, of {len(found):,} samples",
                looked_at=str(folder / layout.MANIFEST),
                run_next=f"stoker info {folder}; {_way_on(job)}",
            )
        check_up_to_date(job, found)
        return found
    if not how.resume and not _is_new_part(folder, how):
        _require_void(folder, paths)
    strangers = [p.name for p in folder.iterdir() if not _is_ours(p.name)]
    if strangers:
        raise InputError(
            f"{folder} is not empty",
            looked_at=f"{strangers[0]}, and {len(strangers) - 1} more",
            run_next="give a new folder",
        )
    return None


def _way_on(job: Job) -> str:
    if is_in_hand(job.listing.location):  # it can't be packed in part
        return "--resume compares it with the script; or pack into a new folder"
    return "--repack brings it up to date, --append adds"


def _require_void(folder: Path, paths: list[Path]) -> None:
    """Raise InputError where beginning anew would throw away what is finished, or is being made."""
    finished = [path for path in paths if journals.read(path).shards]
    if finished:
        is_whole = (folder / layout.MANIFEST).exists()
        half = "holds half of what --append or --repack began" if is_whole else "is half a pack"
        raise InputError(
            f"{folder} {half}",
            looked_at=", ".join(path.name for path in paths),
            run_next=f"run again with --resume, or remove {_half(folder, paths)} to begin anew",
        )


def _half(folder: Path, paths: list[Path]) -> str:
    """What to remove of a half pack: where it was to follow a whole one, that stays."""
    is_whole = (folder / layout.MANIFEST).exists()
    return ", ".join(map(str, paths)) if is_whole else str(folder)


def _is_new_part(folder: Path, how: How) -> bool:
    return how.parts > 1 and not (folder / journal_name(how)).exists()


def _is_ours(name: str) -> bool:
    return name.startswith(("shard-", "journal", layout.MANIFEST))


def _take_up(job: Job, folder: Path, journal: Journal, how: How) -> None:
    """Begin the journal, or go on with it; what isn't finished is removed."""
    head = journals.Head(job.key, how.part, how.parts, job.generation)
    if journal.head != head:
        if journal.shards:
            half = _half(folder, [journal.path])
            raise InputError(
                f"the half pack in {folder} was begun with other sources or settings",
                looked_at=str(journal.path),
                run_next=f"run with the options of then, or remove {half} to begin anew",
            )
        journal.start(head)
    for number, done in list(journal.shards.items()):
        sizes = [_size(folder / file.name) == file.size for file in done.files]
        if not all(sizes):
            del journal.shards[number]
    for path in folder.glob(f"*{layout.PART}"):
        if how.parts == 1 or _number(path.name) % how.parts == how.part:
            path.unlink(missing_ok=True)
    _check_finished(job, folder, journal)
    _check_room(job, folder, journal, how)


def _check_finished(job: Job, folder: Path, journal: Journal) -> None:
    """Raise InputError when a Dataset gives other samples than those that are finished."""
    finished = tuple(journal.shards.values())
    with Comparison(job, Pack(folder, manifest_of(job, finished))) as comparison:
        other = comparison.other_sample()
    if other is not None:
        raise InputError(
            f"the half pack in {folder} is out of date: {other}",
            looked_at="finished samples, made again",
            run_next=f"remove {_half(folder, [journal.path])} to begin anew",
        )


def _number(name: str) -> int:
    """The number of the shard that a file belongs to."""
    digits = name.removeprefix("shard-")[:5]
    return int(digits) if digits.isdecimal() else 0


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1


def _check_room(job: Job, folder: Path, journal: Journal, how: How) -> None:
    needed = job.payload_bytes()
    if needed is None or not job.frames:
        return
    left = sum(f.count for f in _frames(job, journal, how)) / sum(f.count for f in job.frames)
    free = shutil.disk_usage(folder).free
    if needed * left + _SPARE_BYTES > free:
        raise PackError(
            f"{needed * left / 1e9:,.1f} GB are to be written, {free / 1e9:,.1f} GB are free",
            looked_at=f"the file system of {folder}",
            run_next="make room, or take a smaller --size, or --tier crop-jpeg (a tenth of raw)",
        )


def _frames(job: Job, journal: Journal, how: How) -> list[ShardFrame]:
    """The shards that are this machine's and not finished."""
    return [
        frame
        for frame in job.frames
        if frame.number % how.parts == how.part and frame.number not in journal.shards
    ]


class _Run:
    """One run over the shards that are not finished."""

    def __init__(self, job: Job, folder: Path, journal: Journal, how: How) -> None:
        self._job, self._folder, self._journal, self._how = job, folder, journal, how
        self._frames = {frame.number: frame for frame in _frames(job, journal, how)}
        self._open: dict[int, list[ChunkDone]] = {}
        self._seals: list[Seal] = []
        self._total = sum(frame.count for frame in self._frames.values())
        self._bad = list(_bad(tuple(journal.shards.values())))
        self._bad_before = len(self._bad)
        self._started = how.clock.wall_ns()
        self.done = 0  # samples that were gone through, the bad ones among them

    @property
    def packed(self) -> int:
        """Samples of this run that the pack holds."""
        return self.done - (len(self._bad) - self._bad_before)

    def all(self) -> None:
        """Pack them."""
        self._check_allowed()
        if not self._frames:
            return
        how = self._how
        workers = min(how.workers, -(-self._total // CHUNK_SAMPLES))
        setup = self._job.setup(str(self._folder))
        held = (self._journal.fileno(),)
        with Crew(setup, workers, keep_open=held, start=how.start) as crew:
            for answer in crew.run(self._chunks(), self._seals):
                if isinstance(answer, SealDone):
                    self._sealed(answer)
                else:
                    self._chunk_done(answer)

    def _chunks(self) -> Iterator[Chunk]:
        for frame in self._frames.values():
            try:
                shard.begin(self._folder, frame)
            except OSError as error:
                raise UnwritableError(str(error), error.errno or 0) from error
            for first in range(0, frame.count, CHUNK_SAMPLES):
                count = min(CHUNK_SAMPLES, frame.count - first)
                yield Chunk(frame, first, self._job.refs(frame, first, count))

    def _chunk_done(self, answer: ChunkDone) -> None:
        frame = self._frames[answer.number]
        done = self._open.setdefault(answer.number, [])
        done.append(answer)
        self.done += answer.samples
        self._bad += answer.bad
        self._check_allowed()
        self._check_any_good()
        if sum(part.samples for part in done) == frame.count:
            self._seals.append(Seal(frame, tuple(sorted(part.first for part in done))))
        elapsed = max(1e-9, (self._how.clock.wall_ns() - self._started) / 1e9)
        rate = self.done / elapsed
        left = (self._total - self.done) / rate
        self._how.on_step(Progress(self.done, self._total, rate, left))

    def _check_allowed(self) -> None:
        """Raise PackError for more bad samples than are allowed, those finished before too."""
        bad, allowed = len(self._bad), self._how.max_bad
        if allowed is not None and bad > allowed:
            last = self._bad[-1]
            raise PackError(
                f"samples that could not be read: {bad}, allowed: {allowed}",
                looked_at=f"the last one: {last.source}: {last.reason}",
                run_next=f"mend them, or run again with --resume --max-bad {bad} or more",
            )

    def _check_any_good(self) -> None:
        """Raise PackError when all that this run began with is bad."""
        if len(self._bad) - self._bad_before == self.done >= min(_ALL_BAD, self._total):
            last = self._bad[-1]
            raise PackError(
                f"none of the first {self.done} samples could be read",
                looked_at=f"the last one: {last.source}: {last.reason}",
                run_next="see that the source is what you think it is, then run with --resume",
            )

    def _sealed(self, answer: SealDone) -> None:
        frame = self._frames[answer.number]
        parts = sorted(self._open.pop(answer.number), key=lambda part: part.first)
        bad = tuple(one for part in parts for one in part.bad)
        notes: Counter[str] = Counter()
        moments = Moments()
        for part in parts:
            notes.update(part.notes)
            moments = add_moments(moments, part.moments)
        self._journal.add(
            Shard(
                number=frame.number,
                stem=frame.stem,
                start=frame.start,
                count=frame.count,
                files=answer.files,
                shapes=_own_shapes(self._job, frame),
                quarantine=bad,
                moments=moments,
                notes=dict(sorted(notes.items())),
                sources=self._job.sources(frame),
            )
        )


def _own_shapes(job: Job, frame: ShardFrame) -> dict[str, tuple[int, ...]]:
    """Shapes of the fixed fields that the pack's own record leaves open."""
    open_names = {field.name for field in job.fields if field.is_fixed and field.shape is None}
    return {f.name: f.shape for f in frame.fields if f.name in open_names and f.shape is not None}


def _bad(shards: tuple[Shard, ...]) -> tuple[BadSample, ...]:
    return tuple(bad for one in shards for bad in one.quarantine)


def notes_of(shards: tuple[Shard, ...]) -> dict[str, int]:
    """What was noted about the pictures of all these shards."""
    notes: Counter[str] = Counter()
    for one in shards:
        notes.update(one.notes)
    return dict(notes)


def _unwritable(folder: Path, error: UnwritableError, journal: Journal, job: Job) -> PackError:
    finished = len(journal.shards)
    free = shutil.disk_usage(folder).free
    happened = f"{folder} cannot be written: {error}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        happened = f"the disk is full: {os.strerror(error.errno)}"
    return PackError(
        happened,
        looked_at=f"{free / 1e6:,.0f} MB are free; {finished} of {len(job.frames)} shards are "
        "finished and kept",
        run_next="make room, then run again with --resume",
    )
