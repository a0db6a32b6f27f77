"""One plan for all ranks: the leader runs it, the others do what it says, at the same step.

Between two windows the ranks stand in a meeting, each inside its own call of `next()`, so no
collective is open. There the leader's plan goes on: what it drains all drain, and the window that
it yields all enter. Standard library only.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

from stoker.probe.legs import Loop, Measured, Plan, Window
from stoker.probe.ranks import DRAIN_PATIENCE_S, PATIENCE_S, Order, Ranks

# A rank that is coming needs the step it is in, and those up to the one announced.
_PATIENT_STEPS = 4


def plan_together(loop: Loop, ranks: Ranks, make_plan: Callable[[Loop], Plan]) -> Plan:
    """The plan of this rank: what `make_plan` makes where it leads, else the leader's."""
    ranks.join()
    if ranks.leads:
        return (yield from _lead(ranks, make_plan(_Leading(loop, ranks))))
    return (yield from _follow(ranks, loop))


def _lead(ranks: Ranks, plan: Plan) -> Plan:
    """Run the plan for all; only whole meetings advance it."""
    ranks.give("meet", at=0)
    measured: Measured | None = None
    while True:
        step_s = max(measured.periods, default=0.0) if measured is not None else 0.0
        ranks.gather(PATIENCE_S + _PATIENT_STEPS * step_s)
        try:
            window = next(plan) if measured is None else plan.send(measured)
        except StopIteration as ended:
            ranks.give("stop", reason=ended.value)
            return str(ended.value)
        ranks.give("window", **_as_fields(window))
        measured = yield window


class _Leading:
    """The leader's loop: what is asked of it is asked of all ranks. A `legs.Loop`."""

    def __init__(self, loop: Loop, ranks: Ranks) -> None:
        self._loop = loop
        self._ranks = ranks
        self.workers = loop.workers
        self.depth = loop.depth
        self.epoch_length = loop.epoch_length
        self.has_device = loop.has_device
        self.owned_cores = loop.owned_cores
        self.wants_stages = loop.wants_stages
        self.kept_round = 1
        self.can_halve = False  # what the others' batches are like is not known here

    @property
    def native_threads(self) -> int:
        """Threads of this rank's workers."""
        return self._loop.native_threads

    def elapsed_s(self) -> float:
        """Seconds since the plan began."""
        return self._loop.elapsed_s()

    def start_s(self, workers: int) -> float:
        """As this rank has seen it."""
        return self._loop.start_s(workers)

    def drain(self, what: str, workers: int, *, batches: int, limit_s: float) -> list[float]:
        """Every rank drains a loader of its own, at the same time; this rank's periods."""
        self._ranks.give("drain", what=what, workers=workers, batches=batches, limit_s=limit_s)
        periods = self._loop.drain(what, workers, batches=batches, limit_s=limit_s)
        self._ranks.gather(limit_s + DRAIN_PATIENCE_S)
        return periods

    def end_trial(self) -> None:
        """The loaders of the "V" windows are needed no longer."""
        self._ranks.give("end-trial")
        self._loop.end_trial()

    def once(self, limit_s: float) -> None:
        """Only here: single samples and raw reads say the same on every rank."""
        self._loop.once(limit_s)


def _follow(ranks: Ranks, loop: Loop) -> Plan:
    """Do what the leader says until it says stop."""
    while True:
        *past, order = ranks.orders()
        for each in past:
            if each["do"] == "end-trial":  # worth doing late; all else is over
                loop.end_trial()
            if each["do"] == "stop":
                return str(each["reason"])
        if order["do"] == "stop":
            return str(order["reason"])
        if order["do"] == "drain":
            loop.drain(
                order["what"],
                order["workers"],
                batches=order["batches"],
                limit_s=order["limit_s"],
            )
        elif order["do"] == "end-trial":
            loop.end_trial()
        ranks.carried_out(order)
        if order["do"] == "window":
            yield _window(order)


def _as_fields(window: Window) -> Order:
    """A window as JSON has it, which knows no infinity."""
    fields = dataclasses.asdict(window)
    return fields | {"limit_s": window.limit_s if math.isfinite(window.limit_s) else None}


def _window(order: Order) -> Window:
    names = [field.name for field in dataclasses.fields(Window)]
    fields = {name: order[name] for name in names}
    return Window(
        **fields | {"limit_s": math.inf if order["limit_s"] is None else order["limit_s"]}
    )
