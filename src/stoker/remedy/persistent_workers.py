"""Workers that live on from one epoch to the next."""

from __future__ import annotations

from dataclasses import replace

from stoker.remedy.request import Request
from stoker.remedy.settings import REDRAWN, Change, Refusal, Settings, Subject


def persistent_workers(subject: Subject, settings: Settings, _: Request) -> Change | Refusal:
    """Keep them, unless the data set is told of each epoch, which its copies would not hear."""
    if settings.workers == 0:
        return Refusal("the loader has no workers")
    if subject.settings.persistent:
        return Refusal("the loader keeps its workers already")
    if callable(getattr(subject.dataset, "set_epoch", None)):
        return Refusal(
            "the data set has set_epoch(): workers that live on would keep the first epoch's state"
        )
    return Change(
        replace(settings, persistent=True), "workers are kept between epochs", data=REDRAWN
    )
