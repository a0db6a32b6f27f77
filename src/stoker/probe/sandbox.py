"""Where the examined script's writes go: a private view of the files, layers over the real ones.

`python -m stoker.probe.sandbox --session DIR -- PROGRAM ARGS` becomes PROGRAM in such a view.
Never touches the caller's own view; standard library only.

    Traps, for whoever reads a profile taken under it (the kernel's filesystems/overlayfs.rst):
    | opened to be written   | the whole file is copied first: 50 GB opened `r+` cost 50 GB |
    | hard links             | the written name becomes a file of its own, the others stay as old |
    | opened before that     | a reader that was there first keeps seeing the old text |
    | rename between layers  | EXDEV, as between disks: `shutil.move` copes, `os.rename` does not |
    | rename of an old folder| EXDEV for an ordinary user; of a folder made in the run: fine |
    | files of other users   | an ordinary user cannot change them, even where the group may |
    | TMPDIR, /dev/shm, /run | stay real, and so does what the script leaves in them |
    | flock, fcntl, FIFOs    | as without, among the processes of the run; not with others |
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from stoker import lifetime
from stoker.probe.mounts import MountPlan, plan, read_mounts, read_sockets

LAYERS = "overlay"  # the session's folder with all upper directories
PLAN_FILE = "plan.json"

# The numbers that env(1), timeout(1) and the shells use for the same three things.
EXIT_NO_SANDBOX = 125
EXIT_NOT_EXECUTABLE = 126
EXIT_NOT_FOUND = 127

# linux/sched.h and linux/mount.h
_CLONE_NEWNS = 0x0002_0000
_CLONE_NEWUSER = 0x1000_0000
_MS_BIND = 0x1000
_MS_REC = 0x4000
_MS_SLAVE = 0x8_0000

# The whole trial takes 80 ms on an idle machine.
_TRIAL_TIMEOUT_S = 20.0
# Enough to meet a file to try on, and to be done at once in a folder of a million big ones.
_TRIAL_ENTRIES = 200
_TRIAL_BYTES = 1 << 20


class SandboxError(Exception):
    """No private view can be had here; the text says why."""


class Layers(NamedTuple):
    """What stands in the session: the folders with a layer, and those that stayed open."""

    folders: tuple[str, ...]
    exposed: tuple[str, ...]


def wrap(command: Sequence[str], session: Path, keep: Sequence[str] = ()) -> list[str]:
    """The command that runs `command` in the sandbox of a session; folders in `keep` stay real.

    Isolated (-I -S): neither the script's folder nor PYTHONPATH can get in the way of the launch.
    It ends with this process; not so where another thread than the main one starts it, which the
    kernel would take for the parent.
    """
    kept = [word for path in keep for word in ("--keep", path)]
    starter = ["--starter", str(os.getpid())] if lifetime.is_main_thread() else []
    return [*_launcher(session), *starter, *kept, "--", *command]


def unavailable(
    session: Path | None = None, command: Sequence[str] = (), *, cwd: str | None = None
) -> str | None:
    """Try it in a throw-away child (about 80 ms): None when it works here, else the reason.

    The child builds the very view that `command` would get from here, or from `cwd`, and in it
    makes a file and opens an old one for writing in the working directory and in HOME.
    """
    if sys.platform != "linux":
        return f"overlay mounts are a thing of Linux, this is {sys.platform}"
    try:
        trial = tempfile.TemporaryDirectory(prefix="stoker-trial-", dir=session)
    except OSError as error:
        return f"no folder for the trial can be made: {error.strerror}"
    with trial as folder:
        try:
            tried = subprocess.run(
                [*_launcher(Path(folder)), "--try", "--", *command],
                stdin=subprocess.DEVNULL,
                cwd=cwd,
                capture_output=True,
                text=True,
                timeout=_TRIAL_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"the trial did not end within {_TRIAL_TIMEOUT_S:.0f} s"
        finally:
            discard(Path(folder))
    if tried.returncode == 0:
        return None
    said = (tried.stderr or tried.stdout).strip().splitlines()
    return said[-1] if said else f"the trial ended with code {tried.returncode}"


def enter(session: Path, command: Sequence[str] = (), keep: Sequence[str] = ()) -> Layers:
    """Move this process, and all that it starts, into a private view of the files.

    Folders in `keep` stay real: what is written there is written.
    Must run in a process with one thread, which then replaces itself. Raises SandboxError.
    """
    cwd = Path.cwd()  # the kernel's answer, free of symbolic links
    folder = session.resolve() / LAYERS
    protect = [str(cwd), *_places_of(command)]
    home = _home()
    if home.is_dir():
        protect.append(str(home))
    is_privileged = _unshare()
    mounts = read_mounts(_read("/proc/self/mountinfo"))
    sockets = [path for path in read_sockets(_read("/proc/net/unix")) if _is_there(Path(path))]
    wanted = plan(
        mounts,
        session=str(session.resolve()),
        temporary=str(Path(tempfile.gettempdir()).resolve()),
        protect=protect,
        is_privileged=is_privileged,
        real=[*sockets, *(str(Path(path).resolve()) for path in keep)],
    )
    if not wanted.covers(str(cwd)):
        raise SandboxError(_why_open(cwd, session))
    layers = _mount(wanted, folder, is_privileged=is_privileged)
    if not wanted._replace(overlays=layers.folders).covers(str(cwd)):
        raise SandboxError(f"no layer could be mounted over the working directory {cwd}")
    # The old working directory lies below the layers: come in again by name.
    os.chdir(cwd)
    return layers


def read_layers(session: Path) -> Layers:
    """What `enter` noted down; nothing when it never got so far."""
    path = session / LAYERS / PLAN_FILE
    if not path.exists():
        return Layers((), ())
    noted = json.loads(path.read_text())
    return Layers(tuple(noted["folders"]), tuple(noted["exposed"]))


def would_have_written(session: Path) -> list[str]:
    """One line for each file that the script made, changed or deleted, in the order of paths."""
    from stoker.probe.writes import list_changes

    return [
        str(change)
        for number, folder in enumerate(read_layers(session).folders)
        for change in list_changes(session / LAYERS / str(number) / "upper", Path(folder))
    ]


def discard(session: Path) -> None:
    """Remove the layers and all that was written into them. The script must have ended."""

    def open_up(function: Any, path: str, _error: Any) -> None:
        # The kernel's own `work` directories have mode 000.
        with contextlib.suppress(FileNotFoundError):
            os.chmod(path, 0o700)  # noqa: PTH101
            if function is os.unlink or function is os.rmdir:
                function(path)
            else:
                shutil.rmtree(path)

    layers = session / LAYERS
    if layers.exists():
        shutil.rmtree(layers, onerror=open_up)


def main(arguments: Sequence[str]) -> int:
    """Become the program. Returns only when that is not possible."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        split = arguments.index("--") if "--" in arguments else len(arguments)
        options, command = list(arguments[:split]), list(arguments[split + 1 :])
        is_trial = "--try" in options
        session = Path(options[options.index("--session") + 1])
        if not (command or is_trial):
            raise IndexError
    except (ValueError, IndexError):
        return _refuse(2, "usage: python -m stoker.probe.sandbox --session DIR -- PROGRAM [ARGS]")
    starter = None
    try:
        if "--starter" in options and not is_trial:
            starter = int(options[options.index("--starter") + 1])
        places = [options[n + 1] for n, word in enumerate(options) if word == "--keep"]
        layers = enter(session, command, places)
        if is_trial:
            for place in {Path.cwd(), _home()}:
                if any(place.is_relative_to(folder) for folder in layers.folders):
                    _try_writing(place)
            return 0
    except (SandboxError, OSError) as error:
        return _refuse(EXIT_NO_SANDBOX, f"cannot keep the script's writes apart: {error}")
    return _become(command, starter)


def _launcher(session: Path) -> list[str]:
    start = (
        f"import sys; sys.path.append({str(Path(__file__).parents[2])!r}); "
        "from stoker.probe.sandbox import main; sys.exit(main(sys.argv[1:]))"
    )
    return [sys.executable, "-I", "-S", "-c", start, "--session", str(session)]


def _become(command: list[str], starter: int | None = None) -> int:
    if starter is not None:
        # Behind `enter`: the kernel forgets it with a change of rights. A script may not heed a
        # SIGTERM; a launcher is told by it to end what it has started.
        is_script = command[0] == sys.executable
        lifetime.end_with(starter, number=signal.SIGKILL if is_script else signal.SIGTERM)
    # Python ignores these two, and a program would inherit that; `subprocess` restores them too.
    for name in ("SIGPIPE", "SIGXFSZ"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except (FileNotFoundError, NotADirectoryError):
        return _refuse(
            EXIT_NOT_FOUND,
            f"there is no program {command[0]!r}; looked in PATH and in {Path.cwd()}; "
            f"next: check its spelling, or give its full path",
        )
    except OSError as error:
        return _refuse(
            EXIT_NOT_EXECUTABLE,
            f"{command[0]!r} cannot be started: {error.strerror}; "
            f"next: start it by its interpreter (python FILE, bash FILE), or make it executable",
        )


def _refuse(code: int, text: str) -> int:
    sys.stderr.write(f"stoker: {text}\n")
    return code


def _unshare() -> bool:
    """Leave the caller's mounts. True with the rights of root, False as an ordinary user."""
    uid, gid = os.geteuid(), os.getegid()
    is_privileged = True
    try:
        _system_call("unshare", _CLONE_NEWNS)
    except PermissionError:
        is_privileged = False
        try:
            _system_call("unshare", _CLONE_NEWNS | _CLONE_NEWUSER)
        except OSError as error:
            raise SandboxError(
                f"this system does not let user {uid} make a private view of the files "
                f"(unshare: {error.strerror}); a container's security profile or "
                f"user.max_user_namespaces forbids it"
            ) from error
        # The same user inside as outside; the rights gained here end with the next exec.
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    # Mounts made outside later on still show up here, but none of ours shows up outside.
    _mount_call(None, "/", None, _MS_REC | _MS_SLAVE, None)
    return is_privileged


def _mount(wanted: MountPlan, folder: Path, *, is_privileged: bool) -> Layers:
    """Carry out the plan. A layer that the kernel refuses is left out and its folder is exposed."""
    if folder.exists():
        raise SandboxError(f"{folder} is in use by another run: take a session of its own")
    folder.mkdir(mode=0o700)
    exposed = list(wanted.exposed)
    # Opened before anything is mounted: afterwards the same names lead into the layers.
    behind: dict[str, int] = {}
    for path in sorted({*wanted.overlays, *wanted.kept}):
        # Another program's socket or temporary folder may be gone by now.
        with contextlib.suppress(FileNotFoundError):
            behind[path] = os.open(path, os.O_PATH | os.O_CLOEXEC)
    # Relative upper directories: a comma or colon in the session's path would end the option.
    os.chdir(folder)
    done: list[str] = []
    last_refusal = ""
    for path, descriptor in behind.items():
        source = f"/proc/self/fd/{descriptor}"
        if path in wanted.kept:
            with contextlib.suppress(FileNotFoundError):
                _mount_call(source, path, None, _MS_BIND | _MS_REC, None)
            continue
        upper = _make_upper(Path(str(len(done))), descriptor, is_privileged=is_privileged)
        options = f"lowerdir={source},upperdir={upper}/upper,workdir={upper}/work"
        # As an ordinary user the layer's marks are `user.` attributes (Linux 5.11).
        options += ",redirect_dir=on" if is_privileged else ",userxattr"
        try:
            _mount_call("overlay", path, "overlay", 0, options)
        except OSError as error:
            last_refusal = f"{path}: {error.strerror}"
            exposed.append(path)
            shutil.rmtree(upper)
        else:
            done.append(path)
    for descriptor in behind.values():
        os.close(descriptor)
    if not done:
        raise SandboxError(
            f"the kernel refused every layer (the last one over {last_refusal}); the session's "
            f"file system may not carry one: set TMPDIR to a folder on a local disk"
        )
    layers = Layers(tuple(done), tuple(exposed))
    Path(PLAN_FILE).write_text(json.dumps(layers._asdict()))
    return layers


def _make_upper(folder: Path, lower: int, *, is_privileged: bool) -> Path:
    """Upper and work directory; the upper one shows as the covered folder: it gets its rights."""
    upper = folder / "upper"
    upper.mkdir(parents=True)
    (folder / "work").mkdir()
    real = os.stat(lower)
    if is_privileged:
        os.chown(upper, real.st_uid, real.st_gid)
    upper.chmod(real.st_mode & 0o7777)
    return folder


def _places_of(command: Sequence[str]) -> list[str]:
    """Folders of the files that a command names: a script writes beside itself, too."""
    named = (Path(word) for word in command if not word.startswith("-"))
    return [str(path.resolve().parent) for path in named if _is_there(path)]


def _home() -> Path:
    """Of the script, which goes by the same variable; a container's user may have none."""
    return Path(os.environ.get("HOME", "/")).resolve()


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # in a folder of another user, or a word that is no path: too long, for one
        return False


def _why_open(cwd: Path, session: Path) -> str:
    if session.resolve().is_relative_to(cwd):
        return (
            f"the session folder {session} lies inside the working directory {cwd}, and no layer "
            f"can cover the folder it is stored in: set TMPDIR to a folder outside it"
        )
    return f"the working directory {cwd} can carry no layer (its mount, or a mount below it)"


def _try_writing(place: Path) -> None:
    """Make a file, and open an old one for writing: the kernel may refuse to copy it."""
    if not os.access(place, os.W_OK):
        return
    new = place / f".stoker-trial-{os.getpid()}"
    try:
        new.touch(exist_ok=False)
        new.unlink()
        with os.scandir(place) as entries:
            for entry in islice(entries, _TRIAL_ENTRIES):
                if _is_old_and_small(entry):
                    os.close(os.open(entry.path, os.O_WRONLY))
                    break
    except OSError as error:
        raise SandboxError(
            f"writing in {place} would not work in a private view of the files "
            f"({error.strerror}); files of other users there cannot be copied"
        ) from error


def _is_old_and_small(entry: os.DirEntry[str]) -> bool:
    return (
        entry.is_file(follow_symlinks=False)
        and os.access(entry.path, os.W_OK)
        and entry.stat().st_size <= _TRIAL_BYTES
    )


def _read(path: str) -> str:
    return Path(path).read_text(encoding="utf-8", errors="surrogateescape")


def _mount_call(
    source: str | None, target: str, fstype: str | None, flags: int, options: str | None
) -> None:
    def text(value: str | None) -> bytes | None:
        return None if value is None else os.fsencode(value)

    _system_call(
        "mount", text(source), text(target), text(fstype), ctypes.c_ulong(flags), text(options)
    )


def _system_call(name: str, *arguments: Any) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
