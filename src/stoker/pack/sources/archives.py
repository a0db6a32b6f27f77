"""WebDataset tars and zip archives, read in place: nothing is unpacked to the disk, ever.

A member whose name leads out of the archive, or that is larger than it may be, ends the listing.
"""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from stoker.errors import InputError
from stoker.pack.sources.folder import IMAGE_SUFFIXES
from stoker.pack.sources.listing import Column, Kind, Listing, Place, numbered, sign_of

# No training sample is larger; a declared size beyond it is an accident or an attack.
LARGEST_MEMBER = 1 << 30
# Photos don't shrink, text and masks may 100-fold; deflate's limit is about 1030.
LARGEST_RATIO = 200
# What the extensions of WebDataset hold; any other one is kept as bytes.
_TEXT, _LABEL = ("txt", "text", "caption", "transcript"), ("cls", "cls2", "class", "index")


class _Member(NamedTuple):
    archive: str
    name: str
    offset: int
    size: int
    mtime_ns: int  # of the archive
    sign: int  # of the member's head


def list_tars(paths: Sequence[Path], location: str) -> Listing:
    """The samples of WebDataset tars: members in a row with one name up to the first dot.

    Raises InputError for a tar that is compressed or damaged, for a member that leads out of it,
    and for samples that haven't the same parts.
    """
    samples: list[tuple[str, dict[str, _Member]]] = []
    skipped = 0
    for path in paths:
        for member in _tar_members(path):
            if member is None:
                skipped += 1
                continue
            folder, _, base = member.name.rpartition("/")
            stem, _, extension = base.partition(".")
            key, extension = f"{folder}/{stem}".strip("/"), extension.lower()
            last = samples[-1] if samples else None
            if last is None or last[0] != key or extension in last[1]:
                samples.append((key, {}))
            samples[-1][1][extension] = member
    return _tar_listing(samples, location, skipped)


def _tar_listing(
    samples: list[tuple[str, dict[str, _Member]]], location: str, skipped: int
) -> Listing:
    if not samples:
        raise _empty(location)
    parts = list(samples[0][1])
    for key, found in samples:
        if set(found) != set(parts):
            raise InputError(
                f"{location}: sample {key!r} has the parts {', '.join(sorted(found))}",
                looked_at=f"the first sample has {', '.join(sorted(parts))}",
                run_next="give every sample the same parts",
            )
    columns: list[Column] = []
    values: dict[str, Any] = {}
    classes: tuple[str, ...] = ()
    extension_of: dict[str, str] = {}
    for extension in parts:
        column = _tar_column(extension, {column.name for column in columns})
        columns.append(column)
        extension_of[column.name] = extension
        if column.kind in (Kind.TEXT, Kind.LABEL):
            texts = [_text(found[extension]) for _, found in samples]
            classes, values[column.name] = (
                numbered([text.strip() for text in texts])
                if column.kind is Kind.LABEL
                else (classes, texts)
            )

    def place(position: int, column: str) -> Place:
        member = samples[position][1][extension_of[column]]
        return Place(member.archive, member.offset, member.size)

    sizes = [sum(m.size for m in found.values()) for _, found in samples]
    return Listing(
        kind="tar",
        location=location,
        columns=tuple(columns),
        names=[key for key, _ in samples],
        sizes=np.array(sizes, dtype=np.int64),
        mtimes_ns=np.array(
            [max(m.mtime_ns for m in found.values()) for _, found in samples], dtype=np.int64
        ),
        signs=np.array(
            [sign_of([m.sign for m in found.values()]) for _, found in samples], dtype=np.int64
        ),
        classes=classes,
        values=values,
        place=place,
        remarks=(f"{skipped} links and devices in the archive left out",) if skipped else (),
    )


def _tar_column(extension: str, taken: set[str]) -> Column:
    if f".{extension}" in IMAGE_SUFFIXES and "image" not in taken:
        return Column("image", Kind.IMAGE)
    if "mask" in extension or "seg" in extension:
        return Column(extension, Kind.MASK)
    if extension in _LABEL:
        return Column("label" if "label" not in taken else extension, Kind.LABEL)
    if extension in _TEXT:
        return Column("text" if "text" not in taken else extension, Kind.TEXT)
    if extension == "npy":
        return Column("array", Kind.ARRAY)
    return Column(extension or "data", Kind.BYTES)


def _tar_members(path: Path) -> Iterator[_Member | None]:
    """Regular files; None for links and devices."""
    try:
        if path.is_fifo():  # opening it would wait for its writer
            raise OSError("it is a pipe")
        mtime_ns = path.stat().st_mtime_ns
        with tarfile.open(path, "r:") as archive:
            for info in archive:
                if info.isdir():
                    continue
                if not info.isreg() or info.issparse():
                    yield None
                    continue
                _check(path, info.name, info.size)
                sign = sign_of((info.mtime, info.chksum))
                yield _Member(str(path), info.name, info.offset_data, info.size, mtime_ns, sign)
                archive.members = []  # type: ignore[attr-defined]  # or all headers are kept
    except (tarfile.TarError, OSError, EOFError) as error:
        raise InputError(
            f"{path} cannot be read as a tar archive: {error}",
            looked_at=str(path.absolute()),
            run_next="give an uncompressed, whole .tar (gunzip FILE.tar.gz)",
        ) from error


def list_zip(path: Path) -> Listing:
    """The pictures of a zip archive; the folders that they lie in are the classes.

    Raises InputError for an archive that is damaged or encrypted, or has a member that leads out
    of it or swells more than LARGEST_RATIO times.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = [info for info in archive.infolist() if not info.is_dir()]
    except (zipfile.BadZipFile, OSError, NotImplementedError) as error:
        raise InputError(
            f"{path} cannot be read as a zip archive: {error}",
            looked_at=str(path.absolute()),
            run_next="give a whole, unencrypted .zip",
        ) from error
    for info in members:
        _check(path, info.filename, info.file_size)
        if info.file_size > LARGEST_RATIO * max(info.compress_size, 1024):
            raise InputError(
                f"{path}: {info.filename} swells from {info.compress_size:,} to "
                f"{info.file_size:,} bytes",
                looked_at=f"{len(members):,} members; {LARGEST_RATIO} times is allowed",
                run_next="take the member out of the archive",
            )
    pictures = [info for info in members if info.filename.lower().endswith(IMAGE_SUFFIXES)]
    if not pictures:
        raise _empty(str(path))
    pictures.sort(key=lambda info: info.filename)
    folders = [str(PurePosixPath(info.filename).parent) for info in pictures]
    classes = tuple(sorted({PurePosixPath(folder).name for folder in folders}))
    has_classes = len(classes) > 1
    numbers = {name: number for number, name in enumerate(classes)}
    columns = (Column("image", Kind.IMAGE), Column("label", Kind.LABEL))
    location = str(path)
    return Listing(
        kind="zip",
        location=location,
        columns=columns if has_classes else columns[:1],
        names=[info.filename for info in pictures],
        sizes=np.array([info.file_size for info in pictures], dtype=np.int64),
        # The archive keeps a checksum of each member: a better sign of change than its date.
        mtimes_ns=np.array([info.CRC for info in pictures], dtype=np.int64),
        classes=classes if has_classes else (),
        values={"label": [numbers[PurePosixPath(f).name] for f in folders]} if has_classes else {},
        place=lambda position, _: Place(
            location, pictures[position].header_offset, member=pictures[position].filename
        ),
    )


def _check(path: Path, name: str, size: int) -> None:
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if ".." in parts or name.startswith(("/", "\\")) or name[1:3] in (":/", ":\\"):
        raise InputError(
            f"{path}: the member {name!r} leads out of the archive",
            looked_at="the names of all members",
            run_next="take it out of the archive; who made it may mean harm",
        )
    if size > LARGEST_MEMBER:
        raise InputError(
            f"{path}: the member {name!r} has {size:,} bytes",
            looked_at=f"{LARGEST_MEMBER:,} bytes are allowed",
            run_next="take it out of the archive",
        )


def _text(member: _Member) -> str:
    with Path(member.archive).open("rb") as file:
        file.seek(member.offset)
        return file.read(member.size).decode("utf-8", "replace")


def _empty(location: str) -> InputError:
    return InputError(
        f"{location} has no sample",
        looked_at="its members",
        run_next="give an archive of pictures, or of samples as WebDataset has them",
    )
