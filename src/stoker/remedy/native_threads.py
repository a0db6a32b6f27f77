"""Few native threads in each worker, whatever the script's own set-up asked for."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace

from stoker.remedy.request import Request
from stoker.remedy.settings import SAME, Change, Refusal, Settings, Subject


@dataclass(frozen=True)
class NativeThreads:
    """The duty: torch's own pool, and OpenCV's where it is loaded."""

    count: int

    def __call__(self) -> None:
        """Set them, in this worker."""
        sys.modules["torch"].set_num_threads(self.count)
        if "cv2" in sys.modules:
            sys.modules["cv2"].setNumThreads(self.count)


def native_threads(_: Subject, settings: Settings, request: Request) -> Change | Refusal:
    """So many (one without a number) in each worker."""
    if settings.workers == 0:
        return Refusal("the loader has no workers")
    count = request.count or 1
    duties = (*settings.duties, NativeThreads(count))
    return Change(
        replace(settings, duties=duties), f"{count} native thread{'s' * (count > 1)} a worker", SAME
    )
