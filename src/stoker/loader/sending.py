"""The last stretch of a Loader's batch, in the feeding thread: the copy, `augment` behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stoker.loader.activity import IDLE, Activity
from stoker.loader.batch import Batch
from stoker.loader.device import DeviceLane, HostLane


class Sending:
    """A Loader's lane: batches are changed on their way, and it is noted what is done to them."""

    def __init__(
        self, lane: DeviceLane, augment: Callable[[Batch], Any] | None, activity: Activity
    ) -> None:
        self._lane = lane
        self._augment = augment
        self._activity = activity
        self._copying = IDLE if isinstance(lane, HostLane) else "copy"

    def send(self, batch: Any) -> Any:
        """Send the batch, and have `augment` change it where it comes to be."""
        self._activity.enter(self._copying)
        sent = self._lane.send(batch, None if self._augment is None else self._changed)
        self._activity.enter(IDLE)
        return sent

    def receive(self, sent: Any) -> Any:
        """The batch, as the lane gives it."""
        return self._lane.receive(sent)

    def _changed(self, placed: Any, on_host: Any) -> Any:
        assert self._augment is not None
        # The index stays on the host: it is what draws are made of, and to fetch it would wait for
        # the copy.
        index = on_host["index"]
        self._activity.enter("augment", int(index[0]))
        made = self._augment(Batch({**placed, "index": index}))
        self._activity.enter(self._copying)
        return made
