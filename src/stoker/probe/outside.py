"""How much of a loop's time its thread spends outside of the model, and where.

For loops without a loader, in which nothing else can be told. Standard library only.
"""

from __future__ import annotations

import sys
import threading
from collections import defaultdict
from types import FrameType
from typing import Any

from stoker import clocks
from stoker.probe.stacks import is_users

_EVERY_S = 0.005
_MOST_FRAMES = 200
_PLACES = 5
# Forward, backward, and what is done with gradients; losses that are functions are so short that
# they do not matter.
_OF_MODEL = (
    "torch.nn.",
    "torch.optim.",
    "torch.autograd.",
    "torch._tensor",
    "torch.amp.",
    "torch.distributed",
    "torch._dynamo",
)


class OutsideSampler:
    """Samples one thread until stopped."""

    def __init__(self, thread_id: int) -> None:
        self._thread_id = thread_id
        self._is_over = threading.Event()
        self._samples = 0
        # Seconds, not samples: a thread that holds the interpreter is met less often.
        self._seconds = 0.0
        self._places: defaultdict[tuple[str, int, str], float] = defaultdict(float)
        self._sampler = threading.Thread(target=self._run, name="stoker-outside", daemon=True)
        self._sampler.start()

    def _run(self) -> None:
        before = clocks.wall_s()
        while not self._is_over.wait(_EVERY_S):
            frame = sys._current_frames().get(self._thread_id)
            now = clocks.wall_s()
            if frame is not None:
                self._note(frame, now - before)
            before = now

    def _note(self, frame: FrameType, seconds: float) -> None:
        self._samples += 1
        self._seconds += seconds
        at: FrameType | None = frame
        user: FrameType | None = None
        for _ in range(_MOST_FRAMES):
            if at is None:
                break
            if str(at.f_globals.get("__name__", "")).startswith(_OF_MODEL):
                return
            if user is None and is_users(at):
                user = at
            at = at.f_back
        user = user or frame
        code = user.f_code
        self._places[(code.co_filename, user.f_lineno, code.co_qualname)] += seconds

    def stop(self) -> dict[str, Any]:
        """End; the share outside of the model, and the lines where most of it went."""
        self._is_over.set()
        self._sampler.join()
        if not self._samples:
            return {"samples": 0}
        longest = sorted(self._places.items(), key=lambda item: -item[1])[:_PLACES]
        return {
            "samples": self._samples,
            "share": sum(self._places.values()) / self._seconds,
            "places": [
                {"file": file, "line": line, "function": function, "share": seconds / self._seconds}
                for (file, line, function), seconds in longest
            ],
        }
