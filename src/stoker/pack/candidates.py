"""The ways to pack that a plan compares: tiers, at sizes that the pictures of the source have."""

from __future__ import annotations

import statistics

import msgspec

from stoker.pack.first import LOOKED_AT, FirstSamples
from stoker.pack.manifest import Transform
from stoker.pack.plan import subset
from stoker.pack.sources.listing import Kind, Listing

# The side that ImageNet training stores; smaller sizes are not tried on their own account.
_USUAL_SIZE, _SMALLEST = 256, 32
_TIERS = ("raw", "crop-jpeg", "jpeg")


def own_size(listing: Listing, asked: Transform) -> int | None:
    """The largest size that enlarges fewer than half of the pictures, by some of all over them.

    None where there are none, or none of these can be read. Of a Dataset they are as it is cut.
    """
    some = subset(listing, LOOKED_AT)
    first = FirstSamples(some, exif=asked.exif)
    pictures = [column for column in some.columns if column.kind in (Kind.IMAGE, Kind.MASK)]
    if not pictures:
        return None
    column = min(pictures, key=lambda one: one.kind is Kind.MASK)
    # All of a padded picture is within its longer side; else the shorter one comes to the size.
    is_padded = asked.fit == "pad"
    shapes = [part.shape[:2] for part in first.parts(column.name)]
    sides = [max(shape) if is_padded else min(shape) for shape in shapes]
    return statistics.median_low(sides) if sides else None


def candidates_for(
    asked: Transform, own: int | None, *, has_files: bool = True
) -> tuple[Transform, ...]:
    """Each tier at the size, and at a smaller one. None is larger than the pictures' `own`.

    The size is the one that was asked for. Else a Dataset's pictures keep theirs, as its script
    has them, and files come to the usual size. All else is as it was `asked` for, whose tier
    doesn't count. The files' own bytes are among them where there are files.
    """
    if asked.size is None and not has_files:
        usual = Transform(tier="raw")
        as_they_are = msgspec.structs.replace(
            asked, size=None, fit=usual.fit, resampler=usual.resampler
        )
        if own is None:  # arrays and numbers: no tier makes anything else of them
            return (msgspec.structs.replace(as_they_are, tier="raw"),)
        smaller = _USUAL_SIZE if own > _USUAL_SIZE else own // 2
        sizes = [smaller] if smaller >= _SMALLEST else []
        whole: tuple[Transform, ...] = (as_they_are,)
    else:
        size = asked.size or _USUAL_SIZE
        size = size if own is None else min(size, own)
        sizes = [size // 2, size] if size >= 2 * _SMALLEST else [size]
        whole = ()
    at_sizes = (*(msgspec.structs.replace(asked, size=one) for one in sizes), *whole)
    ways = [msgspec.structs.replace(one, tier=tier) for tier in _TIERS for one in at_sizes]
    return (*ways, Transform(tier="keep")) if has_files else tuple(ways)


def too_large(asked: Transform, own: int | None) -> tuple[str, ...]:
    """What to say where a size was asked for that pictures would have to be enlarged to."""
    if asked.size is None or own is None or asked.size <= own:
        return ()
    return (
        f"--size {asked.size} would only enlarge pictures: half of them or more have no more than "
        f"{own} pixels; {own} is compared in its place",
    )
