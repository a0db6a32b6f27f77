"""Who is compared with whom in benchmarks/loader.py, and what is claimed."""

from __future__ import annotations

from typing import NamedTuple

# Environment of each peer -> the package whose version the table names.
PACKAGES = {
    "tensorflow": "tensorflow-cpu",
    "grain": "grain",
    "spdl": "spdl_core",
    "webdataset": "webdataset",
    "mosaicml-streaming": "mosaicml-streaming",
    "litdata": "litdata",
    "datasets": "datasets",
    "ffcv": "ffcv",
}


class Rival(NamedTuple):
    """A contender, and how many times as fast the group's Loader is claimed to be."""

    name: str
    module: str
    claimed: float | None = None
    environment: str = ""  # that of the project where empty

    @property
    def is_other_loader(self) -> bool:
        """False for the Loader itself, and for bare loops, which are its limit."""
        return not self.name.startswith(("stoker.", "bare "))


class Group(NamedTuple):
    """Contenders of one job; the first is the Loader that is compared with the others."""

    key: str
    part: str  # what --only calls it
    title: str
    rivals: tuple[Rival, ...]


_FILE_PEERS = (
    ("tf.data, decode_and_crop", "tf_data", "tensorflow"),
    ("Grain, simplejpeg, 2 threads", "grain_data", "grain"),
    ("SPDL, simplejpeg, 2 threads", "spdl_pipeline", "spdl"),
)


def _cut(key: str, title: str, suffix: str, claimed: float) -> Group:
    """The Loader on crop-addressable JPEGs, against what reads plain ones."""
    bare = f"bare pool{suffix}" if suffix else "bare pool, 2 threads"
    return Group(
        key,
        "crop",
        f"crop-addressable JPEG {title}",
        (
            Rival(f"stoker.Loader, crop-jpeg{suffix}", "jpegs"),
            Rival(bare, "jpegs", claimed),
            Rival(f"torch DataLoader, simplejpeg, 2 workers{suffix}", "jpegs", claimed),
            *(
                Rival(name + suffix, module, claimed, environment)
                for name, module, environment in _FILE_PEERS
            ),
        ),
    )


GROUPS = (
    Group(
        "1-packed",
        "packed",
        "packed 256² → random crop 224",
        (
            Rival("stoker.Loader", "packed"),
            Rival("stoker.Loader, 1 thread", "packed"),
            Rival("bare loop, one buffer", "packed", 0.8),
            Rival("bare loop, three buffers", "packed", 0.8),
            Rival("torch DataLoader, memory map, 0 workers", "packed", 4.0),
            Rival("torch DataLoader, memory map, 2 workers", "packed", 4.0),
            Rival("Grain, ArrayRecord, 2 threads", "grain_data", 5.0, "grain"),
            Rival("tf.data, TFRecord", "tf_data", 5.0, "tensorflow"),
            Rival("SPDL, memory map, 2 threads", "spdl_pipeline", 5.0, "spdl"),
            Rival("WebDataset, tars, 2 workers", "web_dataset", 5.0, "webdataset"),
            Rival("MosaicML MDS, 2 workers", "mosaic", 5.0, "mosaicml-streaming"),
            Rival("LitData, 2 workers", "lit_data", 5.0, "litdata"),
            Rival("HF datasets, Arrow, 2 workers", "hf_datasets", 5.0, "datasets"),
            Rival("FFCV, pixels (it resizes too), 2 threads", "ffcv_beton", 5.0, "ffcv"),
        ),
    ),
    Group(
        "2-files",
        "jpeg",
        "JPEG files 512² → RandomResizedCrop 224",
        (
            Rival("stoker.Loader, files", "jpegs"),
            Rival("bare pool, 2 threads", "jpegs", 0.85),
            Rival("torch DataLoader, Pillow, 2 workers", "jpegs", 3.0),
            Rival("torch DataLoader, simplejpeg, 2 workers", "jpegs", 1.0),
            *(Rival(name, module, 1.0, home) for name, module, home in _FILE_PEERS),
            Rival("WebDataset, simplejpeg, 2 workers", "web_dataset", 1.0, "webdataset"),
            Rival("MosaicML MDS, simplejpeg, 2 workers", "mosaic", 1.0, "mosaicml-streaming"),
            Rival("LitData, simplejpeg, 2 workers", "lit_data", 1.0, "litdata"),
            Rival("HF datasets, simplejpeg, 2 workers", "hf_datasets", 1.0, "datasets"),
            Rival("FFCV, JPEG, 2 threads", "ffcv_beton", 1.0, "ffcv"),
        ),
    ),
    _cut("3-cut", "512² → RandomResizedCrop 224", "", 1.35),
    _cut("4-cut", "512² → random crop 224", ", crop 224", 2.0),
    _cut("5-cut", "2048×1024 → random crop 512", ", crop 512 of 2048x1024", 3.0),
)
