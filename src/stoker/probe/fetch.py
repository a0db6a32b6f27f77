"""One call of the script's own `next()`, which tells its failures from ours.

Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

# What stands between a script and its loader.
_OURS = ("stoker.probe.", "stoker.remedy.")


class Fetch:
    """Calls for a batch, and remembers what came of it."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._error: BaseException | None = None
        self._trace: TracebackType | None = None
        self._batches: list[Any] = []

    def __call__(self) -> Any:
        """What the script would have got."""
        try:
            batch = self._call()
        except BaseException as error:
            self._error = error
            self._trace = of_script(error.__traceback__)
            raise
        self._batches.append(batch)
        return batch

    def has_raised(self, error: BaseException) -> bool:
        """True for the script's own exception, which then shows no frames of ours."""
        if error is not self._error:
            return False
        error.__traceback__ = self._trace
        # Or the exception would hold the iterator, and its workers, until the next collection.
        self._error = self._trace = None
        return True

    def once(self) -> Any:
        """The batch: the one that was fetched already, or one fetched now."""
        return self._batches[0] if self._batches else self()


def of_script(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the first frame on that is not ours."""
    while trace is not None and _is_ours(trace):
        trace = trace.tb_next
    return trace


def _is_ours(trace: TracebackType) -> bool:
    return str(trace.tb_frame.f_globals.get("__name__", "")).startswith(_OURS)
