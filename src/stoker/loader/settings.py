"""What a Loader is given, checked before anything is made of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stoker.errors import InputError
from stoker.loader import order
from stoker.loader.checks import check
from stoker.loader.crops import Crop, RandomCrop
from stoker.loader.order import Share
from stoker.loader.whole import is_whole


def crop_of(crop: Any) -> Crop | None:
    """The crop that is meant. Raises InputError for what is none, or has no pixels."""
    if isinstance(crop, tuple) or is_whole(crop):
        return RandomCrop(crop)  # which looks at the size
    check(crop is None or hasattr(crop, "boxes"), "crop", crop, "a size, a crop of augment")
    chosen: Crop | None = crop
    return chosen


def fields_of(fields: Any) -> tuple[str, ...] | None:
    """The names that are meant, each once. Raises InputError for what are none."""
    if fields is None:
        return None
    # A name alone would be taken for one a letter.
    is_several = isinstance(fields, Iterable) and not isinstance(fields, str)
    names = tuple(fields) if is_several else ()
    is_names = is_several and all(isinstance(name, str) for name in names)
    check(is_names, "fields", fields, 'None, or names as in ("image", "label")')
    return tuple(dict.fromkeys(names))


def check_gives(count: int, share: Share) -> None:
    """Raises InputError where an epoch of `count` samples would have no batch at all."""
    if order.batch_count(count, share):
        return
    if share.drop_last:
        why = f"fewer than batch_size={share.batch_size} x world_size={share.world_size}"
        way = "drop_last=False, or a smaller batch_size"
    else:
        why = f"not one for each of world_size={share.world_size} ranks"
        way = "give fewer ranks, or more samples"
    raise InputError(
        f"an epoch of {count} samples has no batch",
        looked_at=f"{why}, drop_last={share.drop_last}",
        run_next=way,
    )
