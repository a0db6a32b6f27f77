"""Runs one contender, or writes its packed format, in whatever environment it is started in.

python -m benchmarks.contenders.one MODULE NAME FOLDER SECONDS
python -m benchmarks.contenders.one MODULE --write FOLDER
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.contenders import measure


class Contender(NamedTuple):
    """Makes a loader of a folder of data. Its imports are no part of the time to a batch.

    `data`, a file or folder in there, is brought into the page cache before.
    """

    make: Callable[[Path], Any]
    batch: int
    imports: tuple[str, ...]
    data: str


def found(module: str, name: str, folder: Path) -> Contender:
    """The contender, with what it imports imported, and its data in the page cache."""
    contender: Contender = _module(module).CONTENDERS[name]
    for needed in contender.imports:
        importlib.import_module(needed)
    measure.read_all(folder / contender.data)
    return contender


def _module(name: str) -> Any:
    return importlib.import_module(f"benchmarks.contenders.{name}")


def main() -> None:
    """Measure or write."""
    folder = Path(sys.argv[3])
    if sys.argv[2] == "--write":
        _module(sys.argv[1]).write(folder)
        return
    contender = found(sys.argv[1], sys.argv[2], folder)
    measure.run(
        lambda: contender.make(folder),
        batch_size=contender.batch,
        seconds=float(sys.argv[4]),
    )


if __name__ == "__main__":
    main()
