"""Workers may run wherever their parent may."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from stoker.remedy.request import Request
from stoker.remedy.settings import SAME, Change, Refusal, Settings, Subject


@dataclass(frozen=True)
class Affinity:
    """The duty: the mask of the training process."""

    cpus: frozenset[int]

    def __call__(self) -> None:
        """Set it, for this worker."""
        os.sched_setaffinity(0, self.cpus)


def restore_affinity(_: Subject, settings: Settings, __: Request) -> Change | Refusal:
    """Give the workers the mask that the training process has now."""
    if settings.workers == 0:
        return Refusal("the loader has no workers")
    mask = frozenset(os.sched_getaffinity(0))
    duties = (*settings.duties, Affinity(mask))
    return Change(replace(settings, duties=duties), f"workers on {len(mask)} cores", SAME)
