"""What a Loader is given, checked before anything is made of it."""

from __future__ import annotations

from typing import Any

from stoker.errors import InputError
from stoker.loader import order
from stoker.loader.crops import Crop, RandomCrop
from stoker.loader.order import Share
from stoker.loader.whole import is_whole


def check(
    is_allowed: bool, name: str, value: object, allowed: str, *, owner: str = "stoker.Loader"
) -> None:
    """Raises InputError for a setting of the Loader, or another `owner`, that is not allowed."""
    if not is_allowed:
        raise InputError(
            f"{owner} cannot have {name}={value!r}",
            looked_at=f"allowed: {allowed}",
            run_next=f"help({owner})",
        )


def crop_of(crop: Any) -> Crop | None:
    """The crop that is meant. Raises InputError for what is none, or has no pixels."""
    chosen: Crop | None = RandomCrop(crop) if type(crop) in (int, tuple) else crop
    check(chosen is None or hasattr(chosen, "boxes"), "crop", crop, "a size, a crop of augment")
    if chosen is not None:
        size: Any = chosen.size
        both = size if isinstance(size, tuple) else (size, size)
        is_size = len(both) == 2 and all(is_whole(side, 1) for side in both)
        check(is_size, "crop", crop, "a size of 1 or more pixels, or (height, width)")
    return chosen


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
