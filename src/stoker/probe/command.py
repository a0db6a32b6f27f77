"""The command that runs a script, module or launcher; what can't be run is refused beforehand.

Imports nothing of the user's: that is for the examined process to do.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Literal

from stoker.errors import InputError

Kind = Literal["script", "module", "launcher"]


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


def is_there(name: str, places: Sequence[str]) -> bool:
    """True when the dotted name leads to a module; its packages are looked into, not imported."""
    within: Sequence[str] | None = places
    for part in name.split("."):
        # The last part alone: by its whole name a folder without __init__.py would be looked for
        # in its imported parent.
        spec = PathFinder.find_spec(part, within) if within is not None and part else None
        if spec is None:
            return False
        locations = spec.submodule_search_locations
        within = list(locations) if locations is not None else None
    return True


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
