"""Claim: a pack of a million samples opens in at most 0.2 seconds, numpy's import apart.

The pack has the manifest and the files of a real one of 256² raw photos; their bytes are holes.
`python -m benchmarks.pack_open`
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from benchmarks import record
from stoker.pack import Codec, Field, Role, Shard, layout, manifest, open_pack
from stoker.pack.manifest import FileEntry, Manifest, Moments, Origin, Transform
from stoker.stats import median_spread

CLAIM = "A pack of 1,000,000 samples opens in at most 0.2 s."
ALLOWED_S = 0.2
SAMPLES, ROW = 1_000_000, 256 * 256 * 3
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
                files=tuple(_file(folder, stem, field, count) for field in FIELDS),
                moments=Moments(pixels=count, total=(count,) * 3, squares=(count,) * 3),
                class_counts=(1,) * 1000,
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
            classes=tuple(f"class {number}" for number in range(1000)),
            transform=Transform(tier="raw", size=256),
            origin=Origin(kind="folder", location="photos", count=SAMPLES),
            shards=tuple(shards),
        ),
    )


def _file(folder: Path, stem: str, field: Field, count: int) -> FileEntry:
    name = layout.files_of(stem, field.name, is_fixed=field.is_fixed)[0]
    size = layout.HEADER_BYTES + count * (ROW if field.name == "image" else 8)
    with (folder / name).open("wb") as file:
        file.truncate(size)
    return FileEntry(name=name, size=size, blocks="0123abcd" * -(-size // layout.BLOCK_BYTES))


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
    row = f"{SAMPLES:,} samples in {shards} shards"
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
