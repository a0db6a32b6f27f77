"""What steps need of the batch that they are given: said before anything is computed of it."""

from __future__ import annotations

import torch

from stoker.errors import InputError
from stoker.loader.augment.recipe import Working


def need_bytes(batch: Working, step: object, *, in_colour: bool = False) -> None:
    """Raises InputError for pictures that are no bytes of 0 to 255; `in_colour`: nor R, G, B."""
    name = type(step).__name__
    if batch.image.dtype is not torch.uint8:
        raise InputError(
            f"{name} needs pictures of bytes, 0 to 255, and was given {batch.image.dtype}",
            looked_at=_pictures(batch),
            run_next=f"let {name} come before steps that make floats, as Normalize and MixUp do, "
            "and give a recipe the pictures as they are stored",
        )
    if in_colour:
        need_channels(batch, step, 3)


def need_channels(batch: Working, step: object, count: int) -> None:
    """Raises InputError for pictures of another number of channels."""
    if batch.image.shape[1] != count:
        raise InputError(
            f"{type(step).__name__} is for {count} channels, and the pictures have "
            f"{batch.image.shape[1]}",
            looked_at=_pictures(batch),
            run_next="leave the step out, or give it the numbers of these channels; the channels "
            "come second: image.permute(0, 3, 1, 2) where they come last",
        )


def need_resizable(batch: Working) -> None:
    """Raises InputError for pictures of whole numbers other than bytes."""
    if batch.image.dtype is torch.uint8 or batch.image.is_floating_point():
        return
    raise InputError(
        f"pictures of {batch.image.dtype} cannot be resized",
        looked_at=_pictures(batch),
        run_next="crop without resizing, as RandomCrop does, or give bytes or floats",
    )


def need_masks_alike(batch: Working) -> None:
    """Raises InputError for a mask that does not lie over its picture, pixel by pixel."""
    wanted = len(batch.image), *batch.image.shape[-2:]
    for name, mask in batch.masks.items():
        shape = tuple(getattr(mask, "shape", ()))
        is_mask = isinstance(mask, torch.Tensor) and len(shape) in (3, 4)
        if not is_mask or (shape[0], *shape[-2:]) != wanted:
            raise InputError(
                f"the mask {name!r} has the shape {shape}, and does not lie over the pictures",
                looked_at=f"{_pictures(batch)}; a mask has (N, H, W) or (N, C, H, W)",
                run_next="bring masks to the size of their pictures before, or name the fields "
                "that are masks: stoker.augment.Recipe(…, masks=())",
            )


def need_no_masks(batch: Working, step: object) -> None:
    """Raises InputError for a batch with masks, where the step could not change them alike."""
    if batch.masks:
        raise InputError(
            f"{type(step).__name__} blends pictures, and masks can't be blended with them",
            looked_at=f"the masks {', '.join(batch.masks)}",
            run_next="CutMix, which pastes masks too; or stoker.augment.Recipe(…, masks=()), where "
            "they shall stay as they are",
        )


def _pictures(batch: Working) -> str:
    return f"the pictures {tuple(batch.image.shape)} {batch.image.dtype}"
