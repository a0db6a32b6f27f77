"""How a script is started under the probe, and how all that it started is ended.

Its environment, and where its writes go.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import stoker
from stoker import lifetime
from stoker.probe import sandbox
from stoker.probe.descendants import end_marked, end_tree
from stoker.probe.hooks.savers import trackers_off
from stoker.probe.session import OPTIONS_FILE, ROOT_VARIABLE, SESSION_VARIABLE, TRY_VARIABLE
from stoker.probe.session_folder import unusable

# multiprocessing binds sockets of up to about 40 more characters below TMPDIR; the limit is 107.
_LONGEST_TMPDIR = 64
# So long what is told to end may take before it is killed.
KILL_AFTER_S = 5.0


class Launch(NamedTuple):
    """What to start. `writes` is "allowed", "overlay" or, where none can be had, "no-op"."""

    command: list[str]
    writes: str
    notes: tuple[str, ...] = ()


def prepared(
    command: list[str],
    folder: Path,
    *,
    allow_writes: bool = False,
    keep: Sequence[str] = (),
    cwd: str | None = None,
) -> Launch:
    """The command in the sandbox of the session `folder`; what is in `keep` stays real.

    `cwd`: where it is to be started, when that is not here.
    """
    if allow_writes:
        return Launch(command, "allowed")
    reason = sandbox.unavailable(folder, command, cwd=cwd)
    if reason is None:
        return Launch(sandbox.wrap(command, folder, keep), "overlay")
    note = f"no overlay for writes here ({reason}): savers do nothing"
    return Launch(command, "no-op", (note,))


def start(
    launch: Launch,
    folder: Path,
    options: Mapping[str, Any],
    *,
    cwd: str | None = None,
    stdin: int | None = None,
    tries: bool = False,
) -> subprocess.Popen[bytes]:
    """Start it, with its session and these options in that folder. Raises OSError, and FolderError
    where the folder takes no file.

    Its stdout is our stderr: our own stdout carries the answer alone. `tries`: as in `environment`.
    """
    # Whom it must not outlive; the kernel takes a thread for its parent, which may end before.
    asked_by = (os.getpid(), lifetime.pid_namespace()) if lifetime.is_main_thread() else None
    written = {"writes": launch.writes, "asked_by": asked_by, **options}
    try:
        (folder / OPTIONS_FILE).write_text(json.dumps(written))
        found = environment(folder, launch.writes, tries=tries)
    except OSError as error:
        raise unusable(error) from error
    return subprocess.Popen(launch.command, cwd=cwd, env=found, stdin=stdin, stdout=2)


@contextmanager
def all_ended(
    child: subprocess.Popen[bytes], folder: Path, *, leave_s: float, told: int | None = None
) -> Iterator[None]:
    """Within it the child of the session in `folder` is followed to its end.

    Where that breaks off the child is ended with all below it, after the signal `told`. What is
    left behind at the end, whoever its parent is by then, has `leave_s` to go by itself.
    """
    try:
        yield
    except BaseException:
        if told is not None:
            child.send_signal(told)
        end_tree(child.pid, after_s=KILL_AFTER_S)
        child.wait()
        raise
    finally:
        end_marked(SESSION_VARIABLE, str(folder), leave_s=leave_s, after_s=KILL_AFTER_S)


def environment(folder: Path, writes: str, *, tries: bool = False) -> dict[str, str]:
    """The variables of a script under the probe, with the session in that folder.

    `tries`: remedies are tried in it.
    """
    found = dict(os.environ)
    found.pop(TRY_VARIABLE, None)  # of a doctor around this one
    if tries:
        found[TRY_VARIABLE] = "1"
    site = str(Path(__file__).parent / "site")
    path = found.get("PYTHONPATH")
    found["PYTHONPATH"] = f"{site}{os.pathsep}{path}" if path else site
    found[SESSION_VARIABLE] = str(folder)
    found[ROOT_VARIABLE] = str(Path(stoker.__file__).parent)
    if writes != "allowed":
        found.update(trackers_off(folder))
    temporary = folder / "tmp"
    if len(str(temporary)) <= _LONGEST_TMPDIR:
        temporary.mkdir()
        found["TMPDIR"] = str(temporary)
    return found
