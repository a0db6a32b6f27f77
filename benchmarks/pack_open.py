"""Claim: a pack of a million samples opens in at most 0.2 seconds, numpy's import apart.

The pack has the manifest and the files of a real one of 256² raw photos, in as many classes as
ImageNet-21k has; their bytes are holes.
`python -m benchmarks.pack_open`
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import record
from stoker.pack import Codec, Field, Role, Shard, layout, manifest, open_pack
from stoker.pack.manifest import FileEntry, Manifest, Moments, Origin, Transform
from stoker.stats import median_spread

CLAIM = "A pack of 1,000,000 samples opens in at most 0.2 s."
ALLOWED_S = 0.2
SAMPLES, ROW, CLASSES = 1_000_000, 256 * 256 * 3, 21_841
TURNS = 15
FIELDS = (
    Field(name="image", dtype="uint8", shape=(256, 256, 3), axes="HWC", colours="RGB"),
    Field(name="label", dtype="int64", shape=(), role=Role.LABEL),
    Field(name="source", dtype="uint8", is_fixed=False, codec=Codec.TEXT, role=Role.PROVENANCE),
    Field(name="source_stat", dtype="int64", shape=(2,), role=Role.PROVENANCE),
)


def make(folder: Path) -> None:
    """The manifest, and files of the right sizes without bytes."""
    a_shard = layout.SHARD_BYTES // ROW
    shards = []
    for number, start in enumerate(range(0, SAMPLES, a_shard)):
        count = min(a_shard, SAMPLES - start)
        stem = layout.stem(number)
        shards.append(
            Shard(
                number=number,
                stem=stem,
                start=start,
                count=count,
                files=tuple(
                    entry for field in FIELDS for entry in _files(folder, stem, field, count)
                ),
                # Of every 16th sample.
                moments=Moments(
                    pixels=count * 4096, total=(count * 4096 * 120,) * 3, squares=(count << 27,) * 3
                ),
                notes={"cut": count, "exif-ignored": count // 9},
                sources=0x0123ABCD,
            )
        )
    manifest.write(
        folder,
        Manifest(
            schema=manifest.SCHEMA,
            generation=1,
            samples=SAMPLES,
            shard_samples=a_shard,
            fields=FIELDS,
            classes=tuple(f"n{number:08}" for number in range(CLASSES)),
            transform=Transform(tier="raw", size=256),
            origin=Origin(kind="folder", location="photos", count=SAMPLES),
            shards=tuple(shards),
        ),
    )


def _files(folder: Path, stem: str, field: Field, count: int) -> Iterator[FileEntry]:
    size = layout.HEADER_BYTES + count * (ROW if field.name == "image" else 8)
    for name in layout.files_of(stem, field.name, is_fixed=field.is_fixed):
        with (folder / name).open("wb") as file:
            file.truncate(size)
        blocks = "0123abcd" * -(-size // layout.BLOCK_BYTES)
        yield FileEntry(name=name, size=size, blocks=blocks)


def main() -> int:
    """Measure, print and keep."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        make(folder)
        times = []
        for _ in range(TURNS):
            began = time.perf_counter()
            pack = open_pack(folder)
            pack.locate(SAMPLES - 1)
            times.append(time.perf_counter() - began)
        size = (folder / layout.MANIFEST).stat().st_size
        shards = len(pack.shards)
    spent = median_spread(times)
    row = f"{SAMPLES:,} samples of {CLASSES:,} classes in {shards} shards"
    held = record.write(
        "pack_open",
        claim=CLAIM,
        columns=("pack", "manifest", "opening", "95 % interval"),
        rows={
            row: (
                row,
                f"{size / 1e6:.1f} MB",
                f"{spent.median * 1e3:.0f} ms",
                f"{spent.low * 1e3:.0f}–{spent.high * 1e3:.0f} ms",
            )
        },
        numbers={row: {"open_s": spent.median, "manifest_bytes": size}},
        passed={row: spent.high <= ALLOWED_S},
    )
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
