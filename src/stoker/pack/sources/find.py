"""From what the user wrote on the command line to a listing."""

from __future__ import annotations

from pathlib import Path

from stoker.errors import InputError
from stoker.pack.sources import archives, dataset, folder, table
from stoker.pack.sources.listing import Listing


def list_source(given: str) -> Listing:
    """The samples of a folder, a table, tars, a zip archive, or a Dataset `module:object`.

    Raises InputError for anything else, and for a source without samples.
    """
    try:
        return _listed(given)
    except OSError as error:
        raise InputError(
            f"{given} cannot be read: {error.strerror}",
            looked_at=str(error.filename or Path(given).absolute()),
            run_next="give a source that you may read",
        ) from error


def _listed(given: str) -> Listing:
    path = Path(given)
    if path.is_dir():
        tars = sorted(path.glob("*.tar"))
        return archives.list_tars(tars, given) if tars else folder.list_folder(path)
    if path.is_file():
        suffix = path.suffix.lower()
        if suffix == ".tar":
            return archives.list_tars([path], given)
        if suffix == ".zip":
            return archives.list_zip(path)
        if suffix in table.SUFFIXES:
            return table.list_table(path)
        raise InputError(
            f"{given} is a file of an unknown kind",
            looked_at=f"its ending {suffix!r}; known are .tar .zip {' '.join(table.SUFFIXES)}",
            run_next="give a folder, one of these files, or module:object",
        )
    if ":" in given and "://" not in given:
        return dataset.list_dataset(given)
    raise InputError(
        f"{given} does not exist",
        looked_at=str(path.absolute()),
        run_next="give a folder, a CSV, JSONL, tar or zip file, or module:object",
    )
