"""What is finished of a pack that is being made, one line a shard; and the lock of who makes it.

The lock is the kernel's (flock): it ends with the process that holds it, however that ends.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import NamedTuple

import msgspec

from stoker.errors import InputError
from stoker.pack import layout
from stoker.pack.manifest import Shard

# A killed packer's workers go down with it, but not in the same instant.
_LOCK_WAIT_S = 5.0
_LOCK_POLL_S = 0.05
_LOCKS = Path("/proc/locks")


class Head(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line: what job it is. `part` of `parts` when several machines share it.

    `generation`: that of the manifest it ends with.
    """

    key: int
    part: int = 0
    parts: int = 1
    generation: int = 1


class Content(NamedTuple):
    """What stands in a journal; no head when its packer was killed before it wrote one."""

    head: Head | None
    shards: dict[int, Shard]


class Journal:
    """An open, locked journal. Lines that were added are on the disk when `add` returns."""

    def __init__(self, folder: Path, name: str = layout.JOURNAL) -> None:
        self.path = folder / name
        self.head: Head | None = None
        self.shards: dict[int, Shard] = {}
        self._handle = _opened(self.path)
        try:
            self._read()
        except BaseException:
            os.close(self._handle)
            raise

    def fileno(self) -> int:
        """The descriptor that holds the lock; a process that inherits it holds it too."""
        return self._handle

    def start(self, head: Head) -> None:
        """Begin anew for that job."""
        os.ftruncate(self._handle, 0)
        os.lseek(self._handle, 0, os.SEEK_SET)
        self.head, self.shards = head, {}
        self._write(msgspec.json.encode(head))

    def add(self, shard: Shard) -> None:
        """A shard is finished. Raises OSError."""
        self.shards[shard.number] = shard
        self._write(msgspec.json.encode(shard))

    def close(self, *, remove: bool = False) -> None:
        """Give the lock up; `remove` when the manifest says it all now."""
        if remove:
            self.path.unlink(missing_ok=True)
        os.close(self._handle)

    def _write(self, line: bytes) -> None:
        os.write(self._handle, line + b"\n")
        os.fsync(self._handle)

    def _read(self) -> None:
        """Take over what is there; a last line that was cut short is dropped."""
        (self.head, self.shards), whole = _parsed(_bytes_of(self._handle))
        os.ftruncate(self._handle, whole)
        os.lseek(self._handle, whole, os.SEEK_SET)


def is_over(path: Path, generation: int) -> bool:
    """True for the journal of a manifest that is in place, by its generation, and of nothing.

    Raises InputError as `read` does, but not for one that isn't over.
    """
    head = _content(path, lock=False).head
    if head is not None and head.generation > generation:
        return False
    read(path)
    return True


def read(path: Path) -> Content:
    """What stands in a journal that nobody writes to any more. Changes nothing.

    Raises InputError when somebody does, and for a journal that may not be read.
    """
    return _content(path, lock=True)


def _content(path: Path, *, lock: bool) -> Content:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return Content(None, {})  # it was finished just now
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror}",
            looked_at=f"the journal of the packing in {path.parent}",
            run_next="pack as the user who began it, or into a new folder",
        ) from error
    try:
        if lock:
            _lock(handle, path, fcntl.LOCK_SH)
        return _parsed(_bytes_of(handle))[0]
    finally:
        os.close(handle)


def _parsed(text: bytes) -> tuple[Content, int]:
    """What the whole lines say, and their length; a last line that was cut short is none."""
    head: Head | None = None
    shards: dict[int, Shard] = {}
    whole = 0
    for line in text.split(b"\n")[:-1]:
        try:
            if head is None:
                head = msgspec.json.decode(line, type=Head)
            else:
                shard = msgspec.json.decode(line, type=Shard)
                shards[shard.number] = shard
        except (msgspec.DecodeError, UnicodeDecodeError):
            break
        whole += len(line) + 1
    return Content(head, shards), whole


def _opened(path: Path) -> int:
    """The journal's descriptor, locked."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            _lock(handle, path, fcntl.LOCK_EX)
            if _is_there(handle, path):
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # who held the lock has removed the file


def _is_there(handle: int, path: Path) -> bool:
    """True when the path still names the file that is open."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _lock(handle: int, path: Path, kind: int) -> None:
    give_up = time.monotonic() + _LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(handle, kind | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > give_up:
                raise _locked(handle, path) from None
            time.sleep(_LOCK_POLL_S)


def _bytes_of(handle: int) -> bytes:
    os.lseek(handle, 0, os.SEEK_SET)
    pieces = []
    while piece := os.read(handle, 1 << 20):
        pieces.append(piece)
    return b"".join(pieces)


def _locked(handle: int, path: Path) -> InputError:
    pid = _holder(os.fstat(handle))
    who = "another stoker pack" if pid is None else f"another stoker pack (process {pid})"
    return InputError(
        f"{who} is writing to {path.parent}",
        looked_at=f"the lock on {path}, for {_LOCK_WAIT_S:.0f} s",
        run_next="wait for it, or end it and run with --resume",
    )


def _holder(file: os.stat_result) -> int | None:
    """The process that took the lock; None where the kernel doesn't tell, as in a container."""
    try:
        lines = _LOCKS.read_text().splitlines()
    except OSError:
        return None
    # 1: FLOCK  ADVISORY  WRITE 4711 08:01:131085 0 EOF
    place = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"
    for words in map(str.split, lines):
        if words[1] == "FLOCK" and words[5] == place and int(words[4]) > 0:
            return int(words[4])
    return None
