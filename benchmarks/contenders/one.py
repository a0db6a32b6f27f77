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


def main() -> None:
    """Measure or write."""
    module = importlib.import_module(f"benchmarks.contenders.{sys.argv[1]}")
    if sys.argv[2] == "--write":
        module.write(Path(sys.argv[3]))
        return
    contender: Contender = module.CONTENDERS[sys.argv[2]]
    for name in contender.imports:
        importlib.import_module(name)
    folder = Path(sys.argv[3])
    measure.read_all(folder / contender.data)
    measure.run(
        lambda: contender.make(folder),
        batch_size=contender.batch,
        seconds=float(sys.argv[4]),
    )


if __name__ == "__main__":
    main()
