"""What `manifest.json` holds: records only, and their way to disk and back.

A pure function of the sources and the settings: no time, host, process or number of workers goes
in, so that the same pack has the same bytes wherever and however it was made.
"""

from __future__ import annotations

import os
import zlib
from enum import StrEnum
from pathlib import Path

import msgspec

from stoker.errors import CorruptShardError, PackError, PackVersionError
from stoker.pack import layout

SCHEMA = f"stoker.pack/{layout.FORMAT_VERSION}"


class Role(StrEnum):
    """What a field is for. `index` and `provenance` serve the pack itself, not a batch."""

    DATA = "data"
    LABEL = "label"
    INDEX = "index"
    PROVENANCE = "provenance"


class Codec(StrEnum):
    """What the bytes of a sample are.

    `none`: the array itself. `jpeg`: an ordinary JPEG. `crop-jpeg`: one with restart markers, whose
    segment lengths are in the field NAME.segments. `source`: the bytes of the file that was packed.
    `utf-8`: text. `bytes`: anything.
    """

    NONE = "none"
    JPEG = "jpeg"
    CROP_JPEG = "crop-jpeg"
    SOURCE = "source"
    TEXT = "utf-8"
    BYTES = "bytes"


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The options that all records share."""


class Field(_Record, frozen=True):
    """One column of the pack.

    `shape` is that of one sample, in a fixed field; None where it differs: from shard to shard in
    a fixed field (aspect buckets), from sample to sample in a ragged one. `axes` names the axes
    ("HWC"), `colours` the channels ("RGB").
    """

    name: str
    dtype: str
    shape: tuple[int, ...] | None = None
    is_fixed: bool = True
    codec: Codec = Codec.NONE
    role: Role = Role.DATA
    axes: str = ""
    colours: str = ""


class FileEntry(_Record, frozen=True):
    """A file of a shard: its size in bytes and the checksums of its blocks (layout.BlockSums)."""

    name: str
    size: int
    blocks: str

    @property
    def crc32(self) -> int:
        """The checksum of the whole file."""
        return layout.file_sum(self.blocks)


class BadSample(_Record, frozen=True):
    """A sample that could not be packed. Its place stays, filled with zeros (labels with −1)."""

    index: int
    source: str
    reason: str


class Moments(_Record, frozen=True):
    """Sums over pixels of every 16th sample, by channel: exact, so they add up in any order."""

    pixels: int = 0
    total: tuple[int, ...] = ()
    squares: tuple[int, ...] = ()


class Shard(_Record, frozen=True):
    """A run of samples `start` … `start + count − 1` and the files that hold them."""

    number: int
    stem: str
    start: int
    count: int
    files: tuple[FileEntry, ...]
    # Shapes of the fixed fields that differ from shard to shard.
    shapes: dict[str, tuple[int, ...]] = {}
    quarantine: tuple[BadSample, ...] = ()
    moments: Moments = Moments()
    # Packs of before counted labels here, in as many numbers a shard as there are classes.
    class_counts: tuple[int, ...] = ()
    # What was done beside decoding, by name: "exif-ignored", "first-frame", "cmyk", …
    notes: dict[str, int] = {}
    # crc32 over the fingerprints of the sources, in order: whether the shard is up to date.
    sources: int = 0


class Transform(_Record, frozen=True):
    """How an image became what is stored; two packs with equal records were made alike."""

    tier: str
    size: int | None = None
    fit: str = "shorter"
    resampler: str = "bilinear"
    quality: int | None = None
    exif: str = "ignore"
    # "pillow 11.0.0, simplejpeg 1.8.1": pixels may differ between versions.
    libraries: str = ""


class Origin(_Record, frozen=True):
    """Where the samples came from: the source that was packed, or was appended last."""

    kind: str
    location: str
    count: int
    order: str = "source"
    # crc32 over name, size and time of change of every source, in the order of the source.
    fingerprint: int = 0
    is_hashed: bool = False  # by the bytes of the sources, in the field source_hash


class Manifest(_Record, frozen=True):
    """The whole pack but its samples."""

    schema: str
    generation: int
    samples: int
    shard_samples: int
    fields: tuple[Field, ...]
    classes: tuple[str, ...]
    transform: Transform
    origin: Origin
    shards: tuple[Shard, ...]
    quarantine: tuple[BadSample, ...] = ()
    # crc32 of this record with 0 in this place.
    checksum: int = 0


def utf8(text: str) -> str:
    """File names need not be UTF-8; JSON must: other bytes are spelled out."""
    return text.encode("utf-8", "backslashreplace").decode()


def to_bytes(manifest: Manifest) -> bytes:
    """The manifest as it stands in its file, with its checksum."""
    blank = msgspec.structs.replace(manifest, checksum=0)
    checksum = zlib.crc32(msgspec.json.encode(blank))
    raw = msgspec.json.encode(msgspec.structs.replace(manifest, checksum=checksum))
    return raw + b"\n"


def write(folder: Path, manifest: Manifest) -> None:
    """Put the manifest in place in one step, after everything it speaks of."""
    target = folder / layout.MANIFEST
    temporary = folder / (layout.MANIFEST + layout.PART)
    with temporary.open("wb") as file:
        file.write(to_bytes(manifest))
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(target)
    sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Make renames in the folder last through a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read(folder: Path) -> Manifest:
    """The manifest of the pack in that folder.

    Raises PackError when there is none, PackVersionError for a format that this reader doesn't
    know, CorruptShardError when the manifest itself was damaged.
    """
    path = folder / layout.MANIFEST
    try:
        text = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise _no_manifest(folder) from None
    except OSError as error:
        raise PackError(
            f"{path} cannot be read: {error.strerror}",
            looked_at=str(path),
            run_next="give a folder that you may read",
        ) from error
    _check_version(text, path)
    try:
        found = msgspec.json.decode(text, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _damaged(path, str(error)) from error
    blank = msgspec.structs.replace(found, checksum=0)
    checksum = zlib.crc32(msgspec.json.encode(blank))
    if checksum != found.checksum:
        raise _damaged(path, f"its checksum is {checksum:08x}, written was {found.checksum:08x}")
    return found


class _Version(msgspec.Struct):
    """The one key that every version has."""

    schema: str = ""


def _check_version(text: bytes, path: Path) -> None:
    try:
        found = msgspec.json.decode(text, type=_Version).schema
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _damaged(path, str(error)) from error
    if found != SCHEMA:
        raise PackVersionError(
            f"{path}: schema {found!r}, this reader knows {SCHEMA!r}",
            looked_at=str(path),
            run_next="use the version of stoker that wrote it, or pack the sources again",
        )


def _damaged(path: Path, problem: str) -> CorruptShardError:
    return CorruptShardError(
        f"{path} was changed after it was written: {problem}",
        looked_at=str(path),
        run_next="restore the file from a copy, or pack the sources again into a new folder",
    )


def _no_manifest(folder: Path) -> PackError:
    if folder.is_file() and folder.name == layout.MANIFEST:
        return PackError(
            f"{folder} is a file of a pack; the pack is its folder",
            looked_at=str(folder.absolute()),
            run_next=f"give the folder, {folder.parent}",
        )
    if not folder.is_dir():
        return PackError(
            f"{folder} is no folder, so it is no pack",
            looked_at=str(folder.absolute()),
            run_next="stoker pack SRC DST makes a pack",
        )
    if any(folder.glob("journal*.jsonl")):
        return PackError(
            f"{folder} is half a pack: packing was not finished",
            looked_at=f"{folder / layout.MANIFEST}, which is written last",
            run_next=f"stoker pack SRC {folder} --resume, with the options of the first time",
        )
    return PackError(
        f"{folder} is no pack: it has no {layout.MANIFEST}",
        looked_at=str(folder.absolute()),
        run_next=f"stoker pack SRC {folder} makes a pack",
    )
