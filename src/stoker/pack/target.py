"""The folder that something is written into: made, or refused in words."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from stoker.errors import InputError

# Behind the name of a file that is not finished.
PART = ".part"


def make_folder(folder: Path, *, what: str = "a pack") -> None:
    """Make it where it isn't there. Raises InputError for a file and where none can be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise InputError(
            f"{folder} is a file; {what} is a folder",
            looked_at=str(folder.absolute()),
            run_next="give a new folder",
        ) from error
    except OSError as error:
        raise InputError(
            f"{folder} cannot be made: {error.strerror}",
            looked_at=str(folder.absolute()),
            run_next="give a folder in one that you may write to",
        ) from error


def make_empty_folder(folder: Path, *, what: str = "a pack") -> None:
    """The same, and nothing may be in it. Raises InputError."""
    make_folder(folder, what=what)
    _require_empty(folder, set(), what)


@contextlib.contextmanager
def new_files(folder: Path, names: Iterable[str], *, what: str) -> Iterator[list[Path]]:
    """The paths to write files of these names at, in a folder that is new or empty.

    They get their names when all of them are written; when that fails, they and the folders that
    were made are removed, and nothing else. Raises InputError where the folder can't be.
    """
    files = [folder / name for name in names]
    parts = [path.with_name(path.name + PART) for path in files]
    made = _missing(folder)
    make_folder(folder, what=what)
    _require_empty(folder, {path.name for path in parts}, what)
    named: list[Path] = []
    try:
        yield parts
        for part, path in zip(parts, files, strict=True):
            part.rename(path)
            named.append(path)
    except BaseException:
        for path in (*parts, *named):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
        for one in made:
            with contextlib.suppress(OSError):  # somebody else's file is in it
                one.rmdir()
        raise


def _missing(folder: Path) -> list[Path]:
    """The folder and those above it that aren't there yet, the innermost first."""
    return [one for one in (folder, *folder.parents) if not one.exists()]


def _require_empty(folder: Path, parts: set[str], what: str) -> None:
    """Raise InputError for a folder that holds something; parts are of one that was killed."""
    held = {path.name for path in folder.iterdir()}
    if not held:
        return
    run_next = "give a new folder"
    left = sorted(held & parts)
    if left:
        run_next = (
            f"{what} is being written there, or was killed: then remove {folder / '*'}{PART} "
            "and run it again; or give a new folder"
        )
    raise InputError(
        f"{folder} is not empty",
        looked_at=f"{folder.absolute()}: {', '.join(left or sorted(held))[:200]}",
        run_next=run_next,
    )
