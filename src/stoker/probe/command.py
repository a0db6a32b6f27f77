"""The command that runs a script, module or launcher; what can't be run is refused beforehand.

Imports nothing of the user's: that is for the examined process to do.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from itertools import pairwise
from pathlib import Path
from typing import Literal

from stoker.errors import InputError

Kind = Literal["script", "module", "launcher"]
# No script is larger.
_MOST_BYTES = 10_000_000


def command_of(kind: Kind, argv: Sequence[str], *, asked: str = "doctor") -> list[str]:
    """The words to start. Raises InputError that says what was looked for, and where.

    `asked`: the command of Stoker that was given it, and should be given it anew.
    """
    check = {"script": _check_script, "module": _check_module, "launcher": _check_launcher}[kind]
    check(argv[0], asked)
    before = {"script": [sys.executable], "module": [sys.executable, "-m"], "launcher": []}[kind]
    return [*before, *argv]


def _check_launcher(name: str, _: str) -> None:
    if shutil.which(name) is None:
        raise InputError(
            f"there is no program {name!r}",
            looked_at=f"PATH={os.environ.get('PATH', '')}",
            run_next="give the launcher by its path, or install it in this environment",
        )


def _check_module(name: str, asked: str) -> None:
    places = [str(Path.cwd()), *sys.path]  # as `python -m` has it
    if not (is_there(name, places) or name in sys.builtin_module_names):
        raise InputError(
            f"there is no module {name!r}",
            looked_at=f"{Path.cwd()} and the packages of {sys.executable}",
            run_next=f"stoker {asked} FILE.py runs a script by its path",
        )


def as_typed(kind: Kind, argv: Sequence[str]) -> tuple[str, ...]:
    """The words of a call as they are written behind a command of Stoker, and in its records."""
    before: dict[Kind, tuple[str, ...]] = {"script": (), "module": ("-m",), "launcher": ("--",)}
    return (*before[kind], *argv)


def source_of(kind: Kind, argv: Sequence[str]) -> Path | None:
    """The file that trains, absolute; None where the command line doesn't show one.

    Of a launcher it is the first Python source among its words, else the module behind the last
    -m (the first may be the launcher's own, as of `python -m torch.distributed.run -m trainer`),
    else the first small text among its files.
    """
    if kind == "script":
        return Path(argv[0]).absolute()
    if kind == "module":
        return _module_source(argv[0])
    files = [Path(word).absolute() for word in argv if Path(word).is_file()]
    sources = [path for path in files if path.suffix == ".py"]
    if sources:
        return sources[0]
    modules = [name for option, name in pairwise(argv) if option == "-m"]
    if modules:
        return _module_source(modules[-1])
    # A shell script at most: what is larger, or a program, is no source.
    return next((path for path in files if _is_text(path)), None)


def _is_text(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return path.stat().st_size <= _MOST_BYTES and b"\0" not in file.read(1024)
    except OSError:
        return False


def digest_of(kind: Kind, argv: Sequence[str]) -> str | None:
    """SHA-256 of the file that trains, hexadecimal; None where none is seen or it can't be read."""
    source = source_of(kind, argv)
    try:
        return None if source is None else hashlib.sha256(source.read_bytes()).hexdigest()
    except OSError:
        return None


def _module_source(name: str) -> Path | None:
    """What `python -m` runs: the module's file, or __main__ of a package."""
    places = [str(Path.cwd()), *sys.path]
    spec = _spec(name, places)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = _spec("__main__", list(spec.submodule_search_locations))
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        return None
    return Path(spec.origin).absolute()


def is_there(name: str, places: Sequence[str]) -> bool:
    """True when the dotted name leads to a module; its packages are looked into, not imported."""
    return _spec(name, places) is not None


def _spec(name: str, places: Sequence[str]) -> ModuleSpec | None:
    within: Sequence[str] | None = places
    spec = None
    for part in name.split("."):
        # The last part alone: by its whole name a folder without __init__.py would be looked for
        # in its imported parent.
        spec = PathFinder.find_spec(part, within) if within is not None and part else None
        if spec is None:
            return None
        locations = spec.submodule_search_locations
        within = list(locations) if locations is not None else None
    return spec


def _check_script(name: str, asked: str) -> None:
    path = Path(name)
    if not path.is_file():
        what = "is a directory" if path.is_dir() else "does not exist"
        raise InputError(
            f"the script {name!r} {what}",
            looked_at=str(path.absolute()),
            run_next=f"stoker {asked} SCRIPT [ARGS...], or -m MODULE, or -- LAUNCHER ...",
        )
    if not os.access(path, os.R_OK):
        raise InputError(
            f"the script {name!r} can't be read",
            looked_at=str(path.absolute()),
            run_next=f"chmod u+r {name}",
        )
    if path.suffix == ".ipynb":
        raise InputError(
            f"{name!r} is a notebook, not a script",
            looked_at=str(path.absolute()),
            run_next=f"jupyter nbconvert --to script {shlex.quote(name)}, then stoker {asked} "
            f"{shlex.quote(str(path.with_suffix('.py')))}",
        )
