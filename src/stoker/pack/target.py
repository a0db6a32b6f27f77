"""The folder that something is written into: made, or refused in words."""

from __future__ import annotations

from pathlib import Path

from stoker.errors import InputError


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
    if any(folder.iterdir()):
        raise InputError(
            f"{folder} is not empty",
            looked_at=str(folder.absolute()),
            run_next="give a new folder",
        )
