"""Writes a pack in formats of others: WebDataset tars, Arrow streams. A way out, and no lock-in."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from stoker.errors import InputError, PackError
from stoker.pack.manifest import Codec, Field, Role
from stoker.pack.reader import Pack
from stoker.pack.target import new_files

FORMATS = ("webdataset", "arrow")
# Rows of one Arrow record batch: some tens of megabytes of raw photos.
_BATCH_ROWS = 256
_CLASSES = "classes.json"
_MAGIC = {b"\xff\xd8": "jpg", b"\x89P": "png", b"GI": "gif", b"RI": "webp", b"BM": "bmp"}


def export(pack: Pack, folder: Path, to: str) -> tuple[Path, ...]:
    """Write every usable sample into a new folder, one file a shard; returns the files.

    Raw pictures become PNG, which loses nothing. All of it is there, or nothing that was not there
    before. Raises InputError for an unknown format, a folder that isn't empty, and when the library
    that a format needs is missing; PackError where it can't be written, and CorruptShardError.
    """
    if to not in FORMATS:
        raise InputError(
            f"unknown format {to!r}",
            looked_at=f"the formats {', '.join(FORMATS)}",
            run_next="stoker export --help",
        )
    write = _tar if to == "webdataset" else _arrow(pack)
    suffix = "tar" if to == "webdataset" else "arrow"
    names = [f"shard-{shard:06}.{suffix}" for shard in range(len(pack.shards))]
    has_classes = to == "webdataset" and bool(pack.classes)
    done = 0
    try:
        with new_files(folder, [*names, *([_CLASSES] * has_classes)], what="an export") as parts:
            for shard, path in enumerate(parts[: len(names)]):
                write(pack, shard, path)
                done += 1
            if has_classes:
                parts[-1].write_text(json.dumps(list(pack.classes), ensure_ascii=False) + "\n")
    except OSError as error:
        raise PackError(
            f"the export can't be written: {error.strerror or error}",
            looked_at=f"{folder.absolute()}: {done} of {len(names)} files were finished; all that "
            "it had made there is removed again",
            run_next="make room there, or give a folder elsewhere; then run it again",
        ) from error
    return tuple(folder / name for name in (*names, *([_CLASSES] * has_classes)))


def _fields(pack: Pack) -> tuple[Field, ...]:
    return tuple(f for f in pack.fields.values() if f.role in (Role.DATA, Role.LABEL))


def _is_picture(field: Field) -> bool:
    return field.axes == "HWC"


def _indices(pack: Pack, shard: int) -> list[int]:
    start, stop = pack.starts[shard], pack.starts[shard + 1]
    usable = pack.usable
    return [int(i) for i in usable[(usable >= start) & (usable < stop)]]


def _tar(pack: Pack, shard: int, path: Path) -> None:
    with tarfile.open(path, "w") as archive:
        for index in _indices(pack, shard):
            for field in _fields(pack):
                extension, data = _member(field, pack.value(field.name, index))
                info = tarfile.TarInfo(f"{index:09}.{extension}")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))


def _member(field: Field, value: Any) -> tuple[str, bytes]:
    """Extension and bytes of one field, as webdataset's own decoders expect them."""
    name = field.name.lower()
    if field.role is Role.LABEL:
        return ("cls" if name == "label" else f"{name}.cls"), str(int(value)).encode()
    if _is_picture(field):
        data = _picture_bytes(value)
        kind = _MAGIC.get(data[:2], "img")
        return (kind if name == "image" else f"{name}.{kind}"), data
    if isinstance(value, str):
        return ("txt" if name == "text" else f"{name}.txt"), value.encode()
    if isinstance(value, bytes):
        return name, value
    buffer = io.BytesIO()
    np.save(buffer, value)
    return f"{name}.npy", buffer.getvalue()


def _picture_bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    from PIL import Image

    buffer = io.BytesIO()
    # Level 1: two fifths of the time of the default, for some 8 % more bytes of a photo.
    Image.fromarray(value).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


def _arrow(pack: Pack) -> Callable[[Pack, int, Path], None]:
    """What writes Arrow IPC streams, as `datasets.Dataset.from_file` and `pyarrow.ipc` read."""
    try:
        import pyarrow as pa
    except ImportError as error:
        raise InputError(
            "exporting to arrow needs pyarrow, which is not installed",
            looked_at="import pyarrow",
            run_next="pip install pyarrow",
        ) from error

    fields = _fields(pack)
    schema = pa.schema([(field.name, _arrow_type(pa, pack, field)) for field in fields])
    features = {field.name: _feature(pack, field) for field in fields}
    info = json.dumps({"info": {"features": features}})
    schema = schema.with_metadata({"huggingface": info})

    def write(pack: Pack, shard: int, path: Path) -> None:
        indices = _indices(pack, shard)
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
            for at in range(0, len(indices), _BATCH_ROWS):
                rows = indices[at : at + _BATCH_ROWS]
                columns = [
                    pa.array(
                        [_arrow_value(field, pack.value(field.name, index)) for index in rows],
                        type=schema.field(field.name).type,
                    )
                    for field in fields
                ]
                writer.write_batch(pa.record_batch(columns, schema=schema))

    return write


def _arrow_type(pa: Any, pack: Pack, field: Field) -> Any:
    if _is_picture(field):
        return pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    if field.codec is Codec.TEXT:
        return pa.string()
    if field.codec is not Codec.NONE:
        return pa.binary()
    one = pa.from_numpy_dtype(np.dtype(field.dtype))
    for _ in range(_axes(pack, field)):
        one = pa.list_(one)
    return one


def _axes(pack: Pack, field: Field) -> int:
    """How many axes a sample of the field has."""
    shape = pack.shape(field.name, 0)
    return pack.shapes(field.name, 0).shape[1] if shape is None else len(shape)


def _feature(pack: Pack, field: Field) -> dict[str, Any]:
    """How Hugging Face's datasets describes the column."""
    if _is_picture(field):
        return {"_type": "Image"}
    if field.role is Role.LABEL and pack.classes:
        return {"names": list(pack.classes), "_type": "ClassLabel"}
    if field.codec is not Codec.NONE:
        kind = "string" if field.codec is Codec.TEXT else "binary"
        return {"dtype": kind, "_type": "Value"}
    feature: dict[str, Any] = {"dtype": field.dtype, "_type": "Value"}
    for _ in range(_axes(pack, field)):
        feature = {"feature": feature, "_type": "List"}
    return feature


def _arrow_value(field: Field, value: Any) -> Any:
    if _is_picture(field):
        return {"bytes": _picture_bytes(value), "path": None}
    return value.tolist() if isinstance(value, np.ndarray) else value
