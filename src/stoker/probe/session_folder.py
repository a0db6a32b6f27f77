"""The folder of a session: made, removed at its end, and after owners that were killed.

A file in it says whose it is. Whoever makes the next one clears those whose owner is gone: one
listing of the folder for temporary files, and nothing of another user, of an owner that lives, or
of a machine or container that is not this one. Linux.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from stoker import lifetime
from stoker.errors import FolderError
from stoker.probe import sandbox
from stoker.probe.descendants import marked
from stoker.probe.session import SESSION_VARIABLE

OWNER_FILE = "owner.json"
_PREFIX = "stoker-"
_BLOCK_BYTES = 4096  # of the usual file systems; less may find a place in one that is full


@contextmanager
def session_folder() -> Iterator[Path]:
    """A new folder for a session; it goes at the end, with what its sandbox has caught.

    Raises FolderError where none can be made.
    """
    clear_left()
    folder = _made()
    try:
        yield folder
    finally:
        _remove(folder)


def unusable(error: OSError) -> FolderError:
    """What is raised where the folder can't be made, or takes no file."""
    asked = os.environ.get("TMPDIR")
    return FolderError(
        f"no folder for what is measured can be had: {error.strerror}",
        looked_at=f"TMPDIR={asked}" if asked else "TMPDIR, which is not set: /tmp or /var/tmp",
        run_next="set TMPDIR to a folder that you may write to, with some hundred MB free",
    )


def lack_of_room(folder: Path) -> OSError | None:
    """Why it takes nothing any more; None while it does. What is written meanwhile is lost."""
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            file.write(bytes(_BLOCK_BYTES))
    except OSError as error:
        return error
    return None


def _made() -> Path:
    try:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    except OSError as error:
        raise unusable(error) from error
    owner = {
        "pid": os.getpid(),
        "began": lifetime.began(os.getpid()),
        "world": _world(),
        "folder": str(folder),  # as the processes of the session know it
    }
    try:
        (folder / OWNER_FILE).write_text(json.dumps(owner))
    except OSError as error:
        _remove(folder)
        raise unusable(error) from error
    return folder


def _world() -> list[str]:
    """What a process id means something in: this boot of this machine, and the namespaces."""
    found = []
    with suppress(OSError):
        found.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
    for name in ("pid", "time"):
        with suppress(OSError):
            found.append(str(Path(f"/proc/self/ns/{name}").readlink()))
    return found


def clear_left() -> None:
    """Remove the folders of sessions whose owner was killed. Fails open."""
    with suppress(OSError):
        with os.scandir(tempfile.gettempdir()) as entries:
            found = [Path(entry.path) for entry in entries if entry.name.startswith(_PREFIX)]
        for folder in found:
            with suppress(OSError, ValueError, KeyError, TypeError):
                _clear(folder)


def _clear(folder: Path) -> None:
    facts = folder.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
        return
    # Without the file it is just being made, or no session's.
    with (folder / OWNER_FILE).open("r+b") as file:
        # One starter clears it, others pass by; what one that is killed leaves another finds.
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_there = os.fstat(file.fileno()).st_nlink > 0  # and not cleared since it was opened
        if is_there and _is_left(json.load(file)):
            _remove(folder)


def _is_left(owner: dict[str, Any]) -> bool:
    """True where nobody uses the folder any more: neither its owner, nor a process of its script,
    whose temporary files lie in it.
    """
    if owner["world"] != _world() or not owner["world"]:
        return False
    pid, began = owner["pid"], owner["began"]
    if lifetime.is_alive(pid) and began in (None, lifetime.began(pid)):
        return False
    return not marked(SESSION_VARIABLE, owner["folder"])


def _remove(folder: Path) -> None:
    """The owner's file last: whoever is killed meanwhile leaves it to be found."""
    with suppress(OSError):
        sandbox.discard(folder)
    with suppress(OSError):
        for path in folder.iterdir():
            if path.name == OWNER_FILE:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()
        if [path.name for path in folder.iterdir()] == [OWNER_FILE]:
            (folder / OWNER_FILE).unlink()
        folder.rmdir()
