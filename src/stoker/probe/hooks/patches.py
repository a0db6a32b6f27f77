"""Replacing and putting back: every attribute, dictionary entry and list item that a hook changes.

Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, MutableSequence
from typing import Any, Protocol

_MISSING = object()


class Timing(Protocol):
    """Wraps functions so that their time is kept."""

    def timed(
        self, stage: str, function: Callable[..., Any], *, makes_samples: bool = False
    ) -> Callable[..., Any]:
        """The function, timed."""
        ...

    def timed_sample(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, timed; each outermost call is one sample."""
        ...

    def timed_direct(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, timed where a data set itself calls it."""
        ...

    def note(self, text: str) -> None:
        """Say something with the next record."""
        ...


class TimedCall:
    """A timed function in an object's attribute; pickled, it is the function without timing."""

    def __init__(self, call: Callable[..., Any], original: Callable[..., Any]) -> None:
        self._call = call
        self._original = original
        self.__stoker_timed__ = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function returns."""
        return self._call(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_original"), name)

    def __reduce__(self) -> tuple[Callable[[Any], Any], tuple[Any]]:
        return _same, (self._original,)


def _same(value: Any) -> Any:
    return value


class Patches:
    """Everything replaced so far, to be put back in reverse order."""

    def __init__(self, timing: Timing) -> None:
        self.timing = timing
        self._undo: list[tuple[str, Callable[[], None]]] = []
        self._timed: dict[int, tuple[Any, Callable[..., Any]]] = {}

    def timed(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The timed twin of a function: the same one wherever the function is met."""
        key = id(function)
        if key not in self._timed:
            self._timed[key] = (function, self.timing.timed(stage, function))
        return self._timed[key][1]

    def attribute(self, owner: Any, name: str, value: Any, *, stage: str = "") -> bool:
        """Assign to a class or module; False where that is not allowed (built-in types)."""
        before = vars(owner).get(name, _MISSING)
        try:
            setattr(owner, name, value)
        except (AttributeError, TypeError):
            return False

        def undo() -> None:
            if vars(owner).get(name) is not value:
                return  # somebody else has replaced it since
            if before is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, before)

        self._undo.append((stage, undo))
        return True

    def entry(self, holder: MutableMapping[str, Any], key: str, value: Any, stage: str) -> None:
        """Replace the entry of a dictionary: a module's or an instance's own."""
        before = holder[key]
        holder[key] = value

        def undo() -> None:
            if holder.get(key) is value:
                holder[key] = before

        self._undo.append((stage, undo))

    def item(self, holder: MutableSequence[Any], place: int, value: Any, stage: str) -> None:
        """Replace an item of a list."""
        before = holder[place]
        holder[place] = value

        def undo() -> None:
            for index, item in enumerate(holder):
                if item is value:
                    holder[index] = before

        self._undo.append((stage, undo))

    def undo_stage(self, stage: str) -> None:
        """Put back what was replaced for one stage."""
        for name, undo in reversed(self._undo):
            if name == stage:
                undo()
        self._undo = [(name, undo) for name, undo in self._undo if name != stage]

    def undo(self) -> None:
        """Put everything back."""
        while self._undo:
            self._undo.pop()[1]()
        self._timed.clear()
