"""Where a loop is in its epochs, and which saved states are of such a place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stoker.errors import InputError
from stoker.loader.whole import is_whole

# What has to be the same for a position in the order to mean the same samples.
_DECIDING = ("schema", "seed", "order", "samples", "generation")


class Place:
    """An epoch, and the samples of it that the loop was given, over all ranks.

    Only the pass that was begun last counts, and not once another place was chosen.
    """

    def __init__(self, epoch: int = 0) -> None:
        self.epoch = epoch
        self.position = 0
        self._is_resumed = False
        self._is_given = False  # the loop has all batches of the epoch, and may not ask for more
        # A mark of the pass, not the pass itself: a loop that is left forgets it, and with it its
        # threads go.
        self._running: object = None

    def begin(self) -> tuple[int, int]:
        """The epoch of the pass that begins now, and how many of its samples were given before."""
        if self._is_given and not self._is_resumed:
            # A loop that counts, as some training libraries', leaves without the StopIteration.
            self.epoch += 1
        self._is_given = False
        start = self.position if self._is_resumed else 0
        self._is_resumed = False
        self.position = start
        return self.epoch, start

    def follow(self) -> object:
        """The pass was begun; the mark by which it tells what it gives."""
        self._running = object()
        return self._running

    def given(self, mark: object, position: int, *, is_last: bool) -> None:
        """The loop was given a batch, and is there now; `is_last`: it was the last of the epoch."""
        if mark is self._running:
            self.position, self._is_given = position, is_last

    def ended(self, mark: object, epoch: int) -> None:
        """The loop was told the end of that epoch."""
        if mark is self._running:
            self._running = None
            self.epoch, self.position, self._is_given = epoch + 1, 0, False

    def choose(self, epoch: int) -> None:
        """Let the next pass be that epoch; a position that was loaded in it is kept."""
        self._is_given = False
        if epoch != self.epoch:
            self.epoch, self.position, self._is_resumed = epoch, 0, False
            # The pass under way goes on uncounted, so that its end does not undo the choice.
            self._running = None

    def load(self, epoch: int, position: int) -> None:
        """Let the next pass begin there."""
        self.epoch, self.position = epoch, position
        self._is_resumed, self._is_given = True, False
        self._running = None  # a pass under way must not count on from there


def place_of(state: Any, own: Mapping[str, Any], most: int | None) -> tuple[int, int]:
    """Epoch and position of a state. `own`: the loader's; `most`: samples of an epoch, if known.

    Raises InputError for a state of another loader, and for what is none.
    """
    if not isinstance(state, Mapping):
        raise InputError(
            f"a {type(state).__name__} is no state of a stoker.Loader",
            looked_at=f"{state!r:.80}",
            run_next="give load_state_dict what state_dict() gave",
        )
    missing = [key for key in own if key not in state]
    if missing:
        raise InputError(
            f"the state has no {', '.join(missing)}",
            looked_at=f"its keys: {', '.join(map(str, state)) or 'none'}",
            run_next="give load_state_dict all that state_dict() gave",
        )
    differing = [
        f"{key} {state[key]!r}, here {own[key]!r}" for key in _DECIDING if state[key] != own[key]
    ]
    if differing:
        raise InputError(
            f"the state is of another loader: {'; '.join(differing)}",
            looked_at="the keys of the state that decide the order of samples",
            run_next="make the loader as it was then, or begin the epoch anew",
        )
    epoch, position = state["epoch"], state["position"]
    for key, value, limit in (("epoch", epoch, None), ("position", position, most)):
        if not is_whole(value, 0) or (limit is not None and value > limit):
            raise InputError(
                f"the state cannot have {key}={value!r}",
                looked_at=f"allowed: a whole number, 0 to {'any' if limit is None else limit}",
                run_next="give load_state_dict what state_dict() gave, unchanged",
            )
    return int(epoch), int(position)
