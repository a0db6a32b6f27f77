"""What a user's `augment` is called through, so that its failures are seen and named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stoker.errors import LoaderError
from stoker.loader.batch import Batch

# Samples of a batch that a note names.
_NAMED = 8

Augment = Callable[..., Mapping[str, Any]]


def augmented(augment: Augment, *, seed: int, epoch: int) -> Callable[[Batch], Any]:
    """The function for one epoch: from a batch to what `augment` makes of it."""

    def apply(batch: Batch) -> Any:
        samples = batch["index"]
        try:
            return _made(augment, batch, seed=seed, epoch=epoch)
        except Exception as error:
            named = ", ".join(map(str, samples[:_NAMED].tolist()))
            more = f" and {len(samples) - _NAMED} more" if len(samples) > _NAMED else ""
            error.add_note(f"stage 'augment', epoch {epoch}, samples {named}{more}")
            raise

    return apply


def _made(augment: Augment, batch: Batch, **when: int) -> Any:
    try:
        made = augment(batch, **when)
    except StopIteration as error:
        # As it is, it would end the iterator that calls this, and with it the epoch (PEP 479).
        raise LoaderError(
            "augment raised StopIteration, which would have ended the epoch early",
            looked_at="the exception above, raised while a batch was changed",
            run_next="look in augment for a next() whose iterator has come to its end",
        ) from error
    if made is None:
        raise LoaderError(
            "augment gave None instead of a batch",
            looked_at=f"what {augment!r} returned",
            run_next="let it return the batch that it changed",
        )
    return made
