"""A thread's mark that what it does now is no part of the script's loop.

Standard library only.
"""

from __future__ import annotations

import contextlib
import threading


class Aside(contextlib.AbstractContextManager[None]):
    """On inside of `with`, for this thread alone; may be entered again inside.

    No generator: a loader's StopIteration passes through it at the end of every epoch.
    """

    def __init__(self) -> None:
        self._here = threading.local()

    @property
    def is_on(self) -> bool:
        """True for the thread that is inside."""
        return bool(getattr(self._here, "depth", 0))

    def __enter__(self) -> None:
        self._here.depth = getattr(self._here, "depth", 0) + 1

    def __exit__(self, *_: object) -> None:
        self._here.depth -= 1
