"""A folder of pictures as a data set: one subfolder a class, or all in one place."""

from __future__ import annotations

import os
from io import FileIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stoker.errors import InputError
from stoker.loader.jpeg import Picture

# What Pillow and libjpeg-turbo read, in any case.
SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".ppm"})


class Folder:
    """The pictures below a folder, sorted by path; the class is the first folder of the path.

    Raises InputError for a folder without pictures.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        found = sorted(
            str(Path(where, name).relative_to(self.path))
            for where, _, names in os.walk(self.path, followlinks=True)
            for name in names
            if Path(name).suffix.lower() in SUFFIXES
        )
        if not found:
            raise InputError(
                f"{self.path} holds neither a pack nor pictures",
                looked_at=f"manifest.json, and files that end in {', '.join(sorted(SUFFIXES))}, "
                "in all subfolders",
                run_next="give the folder of a pack, or one with pictures in it",
            )
        self._names = found
        self._root = os.path.join(self.path, "")  # noqa: PTH118 - with the separator
        tops = [name.partition(os.sep)[0] if os.sep in name else "" for name in found]
        self.classes = tuple(sorted(set(tops) - {""}))
        numbers = {name: number for number, name in enumerate(self.classes)}
        # Pictures beside the class folders have no class: −1, as in a pack.
        self.labels: NDArray[np.int64] = np.array([numbers.get(top, -1) for top in tops], np.int64)

    def __len__(self) -> int:
        return len(self._names)

    def read(self, sample: int) -> Picture:
        """The bytes of one file."""
        path = self.name(sample)
        with FileIO(path, "rb", opener=_at_once) as file:
            return Picture(file.read() or b"", path)

    def name(self, sample: int) -> str:
        """The path of one file."""
        # Asked for every sample: a Path costs microseconds.
        return f"{self._root}{self._names[sample]}"


def _at_once(path: str, flags: int) -> int:
    """Opening a pipe would wait for its writer, for ever: this way it is an empty picture."""
    return os.open(path, flags | os.O_NONBLOCK)
