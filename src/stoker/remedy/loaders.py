"""The DataLoaders of this process: who gets remedies. Assigns to `DataLoader.__iter__` alone.

What is not understood runs as the script has it: other loader classes with ways of their own,
loaders of validation, loaders inside of workers.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import weakref
from dataclasses import replace
from types import ModuleType
from typing import Any

from stoker.remedy.apply import Plan, plan
from stoker.remedy.course import LoaderCourse
from stoker.remedy.delivery import Deliveries
from stoker.remedy.ledger import Ledger, LoaderAccount
from stoker.remedy.orders import Orders
from stoker.remedy.settings import Refusal
from stoker.remedy.subject import subject_of
from stoker.remedy.trial import Trial


class Loaders:
    """All loaders of this process that iterate, and what becomes of them."""

    def __init__(self, orders: Orders, module: ModuleType, ledger: Ledger) -> None:
        self._orders = orders
        self._module = module
        self._ledger = ledger
        self._pid = os.getpid()
        self._iterate = module.DataLoader.__iter__
        self._courses: weakref.WeakKeyDictionary[Any, LoaderCourse | None] = (
            weakref.WeakKeyDictionary()
        )
        self._likes: dict[object, tuple[LoaderAccount, Trial]] = {}
        self.deliveries = Deliveries(ledger.tell)
        self._inside = threading.local()
        self._is_open = True

    def install(self) -> None:
        """Stand in front of `iter(loader)` until the process ends."""
        loaders, original = self, self._iterate

        def __iter__(loader: Any) -> Any:  # noqa: N807 - takes the place of the method
            if loaders.is_away():
                return original(loader)
            try:
                feed = loaders.feed(loader)
            except Exception as error:  # noqa: BLE001 - the script's own loader is always there
                loaders.give_up(loader, error)
                feed = None
            return original(loader) if feed is None else feed

        self._module.DataLoader.__iter__ = __iter__
        if any(request.name == "pinned-async" for request in self._orders.requests):
            torch = sys.modules["torch"]
            if torch.cuda.is_available():
                self.deliveries.watch_cuda(torch)
        atexit.register(self.close)

    def is_away(self) -> bool:
        """True where nothing is to be done: in workers and other children, and after the end."""
        worker = self._module._utils.worker._worker_info
        return os.getpid() != self._pid or worker is not None or not self._is_open

    def feed(self, loader: Any) -> Any:
        """The batches in the loader's place; None where it keeps its own."""
        if loader not in self._courses:
            if not _is_training():
                return None
            self._courses[loader] = None  # unless all goes well
            self._courses[loader] = self._course(loader)
        course = self._courses[loader]
        if course is None or course.is_over:
            return None
        return course.begin(loader)

    def give_up(self, loader: Any, error: Exception) -> None:
        """Something of ours broke."""
        self._courses[loader] = None
        self._ledger.tell(f"the script keeps its own loader: {type(error).__name__}: {error}")

    def close(self) -> None:
        """Put all back, and tell what came of it."""
        if os.getpid() != self._pid or not self._is_open:
            return
        self._is_open = False
        self._module.DataLoader.__iter__ = self._iterate
        self.deliveries.undo()
        self._ledger.close()

    # -- one loader --------------------------------------------------------------------------------

    def _course(self, loader: Any) -> LoaderCourse | None:
        name = _name_of(loader)
        if self._orders.dataset is not None and self._orders.dataset != name:
            return None  # not the one that the diagnosis is about
        subject = subject_of(loader, self._orders.batch_bytes)
        # Scripts that make their loader anew for each epoch have one account and one trial.
        like = (name, loader.batch_size, subject.settings, type(loader.sampler))
        account, trial = self._likes.get(like, (None, None))
        if account is not None and account.rolled_back is not None:
            return None
        made = plan(subject, self._orders.requests)
        if subject.is_iterable:
            refusal = Refusal("an iterable data set has no order that could be handed on")
            every = tuple((request, refusal) for request in self._orders.requests)
            made = Plan(subject.settings, (), every)
        if account is None:
            account = self._ledger.open(name)
            account.baseline_s = self._orders.baseline_s
            account.wanted_batches = self._orders.checked_batches
            account.in_order = made.settings.in_order
            self._note(account, made)
        if not made.applied:
            return None
        course = LoaderCourse(
            loader,
            made,
            account,
            iterate=self._iterate,
            deliveries=self.deliveries,
            tell=self._ledger.tell,
            orders=self._orders,
            trial=trial,
        )
        self._likes[like] = (account, course.trial)
        return course

    def _note(self, account: LoaderAccount, made: Plan) -> None:
        for request, change in made.applied:
            account.requests.append(
                # The number that was chosen is what the change of the code has to say.
                replace(request, count=made.settings.workers)
                if request.name == "overlap"
                else request
            )
            account.applied.append(
                {"remedy": str(request), "what": change.told, "data": change.data}
            )
            self._ledger.tell(f"{account.loader}: {request}: {change.told} ({change.data})")
        for request, refusal in made.refused:
            account.refused.append({"remedy": str(request), "reason": refusal.reason})
            self._ledger.tell(f"{account.loader}: {request} refused: {refusal.reason}")


def _name_of(loader: Any) -> str:
    kind = type(loader.dataset)
    return f"{kind.__module__}.{kind.__qualname__}"


def _is_training() -> bool:
    torch = sys.modules["torch"]
    return bool(torch.is_grad_enabled()) and not torch.is_inference_mode_enabled()
