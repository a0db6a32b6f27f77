"""A folder of pictures, in torchvision's ImageFolder order: class folders sorted, then files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from stoker.errors import InputError
from stoker.pack.sources.listing import Column, Kind, Listing, Place

IMAGE_SUFFIXES = (
    *(".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp", ".gif"),
)
# The one of them that ImageFolder doesn't take.
_NOT_IN_IMAGE_FOLDER = ".gif"


def list_folder(folder: Path) -> Listing:
    """The pictures below a folder. Its direct subfolders are the classes, if it has any.

    Samples have the numbers that ImageFolder gives them: GIFs in class folders are left out, unless
    there is nothing else. Raises InputError when there is no picture, or when pictures lie both in
    class folders and beside them.
    """
    classes = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
    names: list[str] = []
    labels: list[int] = []
    for label, name in enumerate(classes):
        before = len(names)
        names += _pictures(folder, folder / name)
        labels += [label] * (len(names) - before)
    beside = [n for n in _names(folder) if n.lower().endswith(IMAGE_SUFFIXES)]
    if names and beside:
        raise InputError(
            f"{folder} has {len(names):,} pictures in folders and {len(beside):,} beside them",
            looked_at=f"the folders {', '.join(classes[:5])} and the file {beside[0]}",
            run_next="move them, or name the pictures in a CSV file with the columns image,label",
        )
    if not names and not beside:
        raise InputError(
            f"{folder} has no picture",
            looked_at=f"files that end in {' '.join(IMAGE_SUFFIXES)}, in every subfolder",
            run_next="give a folder of pictures, a CSV, JSONL, tar or zip file, or module:object",
        )
    gifs = [name.lower().endswith(_NOT_IN_IMAGE_FOLDER) for name in names]
    remarks: tuple[str, ...] = ()
    if any(gifs) and not all(gifs):
        remarks = (
            f"GIFs left out, as by torchvision's ImageFolder: {sum(gifs):,} (a CSV file takes any)",
        )
        others = [number for number, is_gif in enumerate(gifs) if not is_gif]
        names, labels = [names[n] for n in others], [labels[n] for n in others]
    stats = [stat_of(folder / name) for name in names or beside]
    columns = (Column("image", Kind.IMAGE), Column("label", Kind.LABEL))
    root, found = str(folder), names or beside
    return Listing(
        kind="folder",
        location=root,
        columns=columns if names else columns[:1],
        names=found,
        sizes=np.array([size for size, _ in stats], dtype=np.int64),
        mtimes_ns=np.array([mtime for _, mtime in stats], dtype=np.int64),
        classes=tuple(classes) if names else (),
        values={"label": np.array(labels, dtype=np.int64)} if names else {},
        place=lambda position, _: Place(f"{root}/{found[position]}"),
        remarks=remarks,
    )


def _names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in os.scandir(folder) if not entry.is_dir())


def _pictures(root: Path, folder: Path) -> Iterator[str]:
    """Relative names of the pictures below a class folder, links followed but no circle."""
    seen: set[str] = set()
    walks = []
    for path, folders, files in os.walk(folder, followlinks=True):
        real = os.path.realpath(path)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        walks.append((path, files))
    for path, files in sorted(walks):
        inside = os.path.relpath(path, root)
        for name in sorted(files):
            if name.lower().endswith(IMAGE_SUFFIXES):
                yield f"{inside}/{name}"


def stat_of(path: Path) -> tuple[int, int]:
    """Size and time of change; zeros for what can't be looked at: reading it will tell why."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_size, found.st_mtime_ns
