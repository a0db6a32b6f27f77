"""What is served in place of loaders' batches: copies of real ones, while the workers rest.

Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stoker.probe.companions import Companion, Companions
from stoker.probe.kept import KeptBatches
from stoker.probe.legs import Measured, Plan
from stoker.probe.roles import Hooked
from stoker.probe.session import Session

_RESIDENT = frozenset("DPF")  # legs whose batches live on the device
_KEPT = frozenset("DHCPF")  # legs in which no loader is asked for the batches
_NONE_KEPT = "not-kept"  # the end of a plan, as the profile has it
HALF = "half"  # the variant of leg F in which half of a batch is served


class StandIns:
    """The kept batches of the training loader and of its companions."""

    def __init__(self, session: Session, hooked: Hooked, *, rest_s: float) -> None:
        """`rest_s`: the longest that workers may take to come to rest."""
        self._session = session
        self._hooked = hooked
        self._rest_s = rest_s
        self.has_device = False
        self.begin()

    def begin(self) -> None:
        """Forget all: another loader trains now."""
        self._kept = KeptBatches()
        self.companions = Companions()
        self._resting: list[Any] = []  # iterators whose workers are known to be idle

    def __bool__(self) -> bool:
        return bool(self._kept)

    @property
    def first(self) -> Any:
        """A batch of the training loader."""
        return self._kept.first

    @property
    def round(self) -> int:
        """Batches served after which their sizes repeat; 1 where they hardly differ."""
        return self._kept.round

    def keep(self, batch: Any) -> None:
        """Keep copies of the first batches, before the script can touch them."""
        if self._kept.is_full:
            self._kept.note(batch)
        elif self._kept.keep(batch, self._place) and len(self._kept) == 1:
            self._session.write("batch", **self._kept.facts)

    def keep_of(self, companion: Companion, batch: Any) -> None:
        """The same for a loader that goes along."""
        if not companion.kept.is_full:
            companion.kept.keep(batch, self._place)

    def while_kept(self, plan: Plan) -> Plan:
        """The plan, as long as there is something to serve in it.

        Without kept batches the script's own steps are all that can be told.
        """
        measured: Measured | None = None
        while True:
            try:
                window = next(plan) if measured is None else plan.send(measured)
            except StopIteration as ended:
                return str(ended.value)
            if window.leg in _KEPT and not self:
                why = self._kept.refusal or "none has come"
                self._session.write(
                    "note",
                    text=f"no batch could be kept to be served again: {why}. The script's own "
                    "steps were timed, the model alone and the loader alone were not",
                )
                return _NONE_KEPT
            measured = yield window

    def wake(self) -> None:
        """Some loader is asked for a batch of its own again."""
        self._resting = []

    def rest(self, iterator: Any) -> None:
        """Wait until the workers of an iterator have nothing left to do."""
        if not any(iterator is each for each in self._resting):
            self._hooked.quiesce(iterator, limit_s=self._rest_s)
            self._resting.append(iterator)

    def can_halve(self, facts: Mapping[str, Any]) -> bool:
        """Whether a step on half a batch is nothing new to the script, whose loader says `facts`.

        It is where the last batch of an epoch is smaller anyway. What was compiled is left alone,
        for it may be compiled anew for each size; so are loaders that give their batches together.
        """
        if not facts.get("ends_partial") or self.companions.tracks or self._hooked.has_compiled():
            return False
        return self._kept.has_halves_of(facts["batch_size"])

    def hand_out(self, leg: str, companion: Companion | None = None, *, variant: str = "") -> Any:
        """The next kept batch, where that leg wants it, and as that variant of it does."""
        on_device = leg in _RESIDENT and self.has_device
        kept = companion.kept if companion is not None else self._kept
        # Batches that belong together stay together.
        batch = kept.hand_out(
            on_device=on_device, is_weighed=not self.companions.tracks, halved=variant == HALF
        )
        if on_device:
            self._hooked.mark_resident(batch)
        return batch

    @property
    def _place(self) -> Callable[[Any], Any] | None:
        return self._hooked.place if self.has_device else None
