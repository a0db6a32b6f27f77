"""The loaders of one course by their way, and the end of those that are not used any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stoker.remedy.apply import Plan
from stoker.remedy.request import Request
from stoker.remedy.settings import Settings
from stoker.remedy.supply import Supply
from stoker.remedy.trial import Way


class Supplies:
    """One loader for each way."""

    def __init__(self, make: Callable[[Settings], Supply], own: Settings, plan: Plan) -> None:
        self._make = make
        self._plan = plan
        self._made = {Way.OWN: make(own), Way.REMEDIED: make(plan.settings)}
        self._pared: Request | None = None  # what the loader of `Way.PARED` does without
        self._retired: list[Supply] = []  # to be ended once their last batches have come

    def of(self, way: Way, left_out: Request | None = None) -> Supply:
        """The loader for a way; for `Way.PARED` without the remedy `left_out`."""
        if way is Way.PARED and left_out is not None and left_out != self._pared:
            self._retire(Way.PARED)
            plan = self._plan.without(left_out) or self._plan
            self._made[way], self._pared = self._make(plan.settings), left_out
        return self._made[way]

    def change(self, plan: Plan, dropped: Request | None = None) -> None:
        """Other remedies from now on: all but `dropped`, or, before any was applied, what was
        planned anew.
        """
        self._retire(Way.REMEDIED)
        is_there = dropped is not None and dropped == self._pared
        self._made[Way.REMEDIED] = self._made[Way.PARED] if is_there else self._make(plan.settings)
        self._plan = plan

    def renew(self) -> None:
        """The data set is another: remedied workers start anew, caches forget what they hold."""
        others = [supply for way, supply in self._made.items() if way is not Way.OWN]
        for supply in others:  # all of them, before any cache is emptied: they may share it
            supply.close()
        for supply in others:
            supply.renew()

    def retire_all_but(self, coming: Way) -> None:
        """No other way comes again."""
        for way in [each for each in self._made if each is not coming]:
            self._retire(way)

    def release(self, *used: Way) -> None:
        """End the workers of what was retired, and give back what caches hold that none of the ways
        in use asks any more, or that have ended by themselves. Only while nobody takes batches.
        """
        supplies = [self._made[way] for way in used]
        layers = [layer for supply in supplies for layer in supply.settings.layers]
        retired, self._retired = self._retired, []
        for supply in retired:
            if not _is_among(supply, supplies):
                supply.close()
                for layer in supply.settings.layers:
                    if not _is_among(layer, layers):
                        layer.renew()
        for layer in layers:
            if layer.problem() is not None:
                layer.renew()

    def _retire(self, way: Way) -> None:
        if way in self._made:
            self._retired.append(self._made[way])


def _is_among(one: object, others: list[Any]) -> bool:
    return any(one is other for other in others)
