"""Whether a pack gives what the user's own Dataset gives, on a sample: pixels or arrays, labels."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from stoker import split
from stoker.errors import InputError
from stoker.pack.manifest import Codec, Field, Role
from stoker.pack.reader import Pack
from stoker.pack.sources.dataset import load_object, named_values
from stoker.pack.summary import picture

# A mean difference of one grey level of 255 is below what JPEG at quality 95 does to a picture.
# Arrays are stored as they are: they have to be equal.
ALLOWED_MEAN = 1.0
# Samples that are compared where nobody says how many.
USUAL_COUNT = 64
_Pair = tuple[NDArray[Any], NDArray[Any]]


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """What was compared, and how far apart it was: pictures in grey levels of 255.

    `dataset` ends in #N when only the first N of its transforms ran, those that the pack holds.
    """

    schema: str = "stoker.fidelity/1"
    pack: str
    dataset: str
    # The field that was compared, and whether it holds pictures or arrays.
    field: str
    is_picture: bool
    compared: int
    # That the pack holds.
    samples: int
    # Of all pixels or numbers of the sample; None when a size differs.
    mean_difference: float | None
    largest_difference: float | None
    equal_pictures: int
    other_sizes: int
    labels_compared: int
    labels_equal: int
    # Of the names of the sources in the order of the pack, however it is cut into shards: equal for
    # packs of the same sources in the same order.
    order_hash: str
    is_equivalent: bool


def certify(pack: Pack, spec: str, count: int = USUAL_COUNT) -> Certificate:
    """Compare `count` samples from all over the pack with the Dataset `module:object`, by index.

    A pack of a Dataset that was cut is compared with the same cut. Otherwise the Dataset's
    transforms must end where the pack's do: a picture or uint8 array (H, W, 3), not a normalised
    tensor. Raises InputError when the two have not the same number of samples, when the pack isn't
    in the order of its source, or when it has neither pictures nor numbers.
    """
    if pack.manifest.origin.order != "source" or pack.manifest.transform.fit == "bucket":
        raise InputError(
            f"{pack.path} isn't in the order of its source: no index can be compared",
            looked_at=f"order {pack.manifest.origin.order}, fit {pack.manifest.transform.fit}",
            run_next="compare a pack with --order source and another --fit",
        )
    field = _compared(pack)
    spec, dataset = _as_packed(pack, spec)
    if len(dataset) != len(pack):
        raise InputError(
            f"{spec} has {len(dataset):,} samples, {pack.path} has {len(pack):,}",
            looked_at="their lengths",
            run_next="compare with the Dataset of the same data",
        )
    usable = pack.usable
    chosen = usable[np.linspace(0, len(usable) - 1, min(count, len(usable))).astype(int)].tolist()
    label = next((f.name for f in pack.batch_fields if f.role is Role.LABEL), None)
    pairs: list[_Pair] = []
    labels: list[bool] = []
    for index in chosen:
        theirs = named_values(dataset[index])
        other = theirs.get(field.name, next(iter(theirs.values())))
        if _is_picture(field):
            ours = np.asarray(picture(pack, index, field.name))
            pairs.append((ours, _pixels(other, spec, field.name)))
        else:
            pairs.append((pack.value(field.name, index), np.asarray(other)))
        if label is not None and label in theirs:
            labels.append(int(pack.value(label, index)) == int(theirs[label]))
    return _certificate(pack, spec, field, pairs, labels)


def _compared(pack: Pack) -> Field:
    """The field that is compared: "image", or the first of pictures or numbers."""
    for field in sorted(pack.batch_fields, key=lambda one: one.name != "image"):
        if field.role is Role.DATA and (_is_picture(field) or field.codec is Codec.NONE):
            return field
    raise InputError(
        f"{pack.path} has neither pictures nor arrays that could be compared",
        looked_at=f"its fields {', '.join(pack.fields)}",
        run_next=f"stoker verify {pack.path} without --against compares its checksums",
    )


def _is_picture(field: Field) -> bool:
    return field.axes == "HWC"


def _as_packed(pack: Pack, spec: str) -> tuple[str, Any]:
    """The Dataset, with those of its transforms only that the pack holds, and its name."""
    dataset = load_object(spec)
    origin = pack.manifest.origin
    count = origin.location.partition("#")[2] if origin.kind == "dataset" else ""
    cut = split.cut_at(dataset, int(count)) if count and "#" not in spec else None
    return (spec, dataset) if cut is None else (f"{spec}#{count}", cut.kept(dataset))


def _certificate(
    pack: Pack, spec: str, field: Field, pairs: list[_Pair], labels: list[bool]
) -> Certificate:
    is_picture = _is_picture(field)
    alike = [(ours, theirs) for ours, theirs in pairs if ours.shape == theirs.shape]
    distances = [_distance(ours, theirs) for ours, theirs in alike]
    equal = sum(
        ours.dtype == theirs.dtype and not far.any()
        for (ours, theirs), far in zip(alike, distances, strict=True)
    )
    other_sizes = len(pairs) - len(alike)
    numbers = sum(one.size for one in distances)
    mean = sum(float(one.sum()) for one in distances) / numbers if numbers else None
    is_near = mean is not None and mean <= ALLOWED_MEAN if is_picture else equal == len(pairs)
    return Certificate(
        pack=str(pack.path),
        dataset=spec,
        field=field.name,
        is_picture=is_picture,
        compared=len(pairs),
        samples=len(pack.usable),
        mean_difference=mean,
        largest_difference=max((float(one.max(initial=0)) for one in distances), default=None),
        equal_pictures=equal,
        other_sizes=other_sizes,
        labels_compared=len(labels),
        labels_equal=sum(labels),
        order_hash=f"{_order_hash(pack):08x}",
        is_equivalent=is_near and not other_sizes and all(labels),
    )


def _distance(ours: NDArray[Any], theirs: NDArray[Any]) -> NDArray[np.float64]:
    """How far apart the numbers are; what is not a number in both is no difference."""
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    with np.errstate(invalid="ignore"):  # infinity from infinity
        return np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))


def _pixels(given: Any, spec: str, name: str) -> NDArray[np.uint8]:
    value = np.asarray(given)
    if value.dtype != np.uint8 or value.ndim != 3:
        raise InputError(
            f"{spec} gives {value.dtype} of shape {value.shape} for a picture",
            looked_at=f"its part {name!r}",
            run_next="end its transforms where the pack's end: at a picture or uint8 (H, W, 3)",
        )
    return value


def _order_hash(pack: Pack) -> int:
    lengths = names = 0
    if "source" not in pack.fields:
        return 0
    for shard, record in enumerate(pack.shards):
        each = np.diff(pack.offsets("source", shard))
        lengths = zlib.crc32(np.ascontiguousarray(each).tobytes(), lengths)
        names = zlib.crc32((Path(pack.path) / f"{record.stem}.source.bin").read_bytes(), names)
    return zlib.crc32(b"%d %d" % (lengths, names))
