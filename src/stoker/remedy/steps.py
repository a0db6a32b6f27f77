"""The optimizer's steps in this process, by torch's own hook: the loader that they follow trains.

Standard library only.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any


class Steps:
    """Counts them; stays at none for a script that has no optimizer of torch's kind."""

    def __init__(self) -> None:
        self.count = 0
        self._handle: Any = None

    def watch(self, module: ModuleType) -> None:
        """Begin to count; `module` is `torch.optim.optimizer`, just imported."""
        register = getattr(module, "register_optimizer_step_post_hook", None)
        if register is not None:  # torch has it from 2.0 on
            self._handle = register(self._after_step)

    def undo(self) -> None:
        """Take the hook away."""
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    def _after_step(self, *_: Any) -> None:
        self.count += 1


class Cycles:
    """Batch periods, told once an optimizer's step has closed their cycle, all of one alike.

    Some loops take the batches of several backward passes at once: single periods would then say
    nothing, and a stretch cut in the midst of a cycle too much or too little. So what a stretch
    begins with is left out, unless it is as long as the cycle before it, and so a whole one.
    """

    # Whoever gathers more batches for a step has another kind of step than torch's.
    _LONGEST = 64

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._closed = steps.count
        self._open: list[float] = []
        self._kind: object = None
        self._is_first = True  # of its stretch
        self._usual = 0  # periods of a cycle; 0 before there was one

    def cut(self) -> None:
        """The next batch begins a stretch, of whatever kind it is: an epoch begins."""
        self._kind = None

    def given(self, kind: object) -> None:
        """The script gets a batch: of another `kind` than the one before it begins a stretch."""
        if kind is not self._kind:
            self._kind, self._open, self._is_first = kind, [], True
            self._closed = self._steps.count

    def periods(self, seconds: float) -> list[float]:
        """The periods that this one, from the last batch to the next, closes."""
        self._open.append(seconds)
        is_closed = self._steps.count != self._closed or not self._steps.count
        if not is_closed and len(self._open) < self._LONGEST:
            return []
        found, self._open, self._closed = self._open, [], self._steps.count
        count, usual, is_first = len(found), self._usual, self._is_first
        self._is_first = False
        # A rest of a cycle is shorter; a loop that takes two batches before its first step, longer.
        self._usual = max(usual, count) if is_first else count
        return [] if is_first and usual not in (0, count) else [sum(found) / count] * count
