"""The DataLoaders of this process: who gets remedies. Assigns to `DataLoader.__iter__`; and where
loaders that do not pass it are seen, to `_BaseDataLoaderIter.__init__` and `_get_iterator` of
`stoker.DataLoader`.

What is not understood runs as the script has it: other loader classes with ways of their own,
loaders of validation, loaders inside of workers.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import sys
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from types import ModuleType
from typing import Any

from stoker.remedy.apply import Plan, plan
from stoker.remedy.course import LoaderCourse
from stoker.remedy.delivery import Deliveries
from stoker.remedy.indices import Tap
from stoker.remedy.ledger import Ledger, LoaderAccount
from stoker.remedy.orders import Orders
from stoker.remedy.proof import Proof
from stoker.remedy.request import Request
from stoker.remedy.settings import Refusal, Subject
from stoker.remedy.steps import Steps
from stoker.remedy.subject import subject_of
from stoker.remedy.supply import length_of
from stoker.remedy.trial import Way

_DEEPEST = 8  # samplers within samplers

# Why a loader that was seen has no account.
_UNTRAINED = "a DataLoader was iterated with gradients off, as for a validation"
_UNFOLLOWED = "none of them was seen to follow a batch of a DataLoader"
_BROKEN = "a loader was left to the script behind an error, told above"
_OF_STOKER = "stoker.DataLoader makes its batches in a way of its own"


def _nothing() -> None:
    """No data set."""


class Loaders:
    """All loaders of this process that iterate, and what becomes of them."""

    def __init__(self, orders: Orders, module: ModuleType, ledger: Ledger) -> None:
        self._orders = orders
        self._module = module
        self._ledger = ledger
        self._pid = os.getpid()
        self._iterate = module.DataLoader.__iter__
        self._courses = _Courses()
        self._likes: dict[object, _Like] = {}
        self._elsewhere: set[object] = set()  # loaders with ways of their own that were told of
        self._left: dict[str, None] = {}  # why loaders have no account, in the order of being seen
        self._undo: list[Callable[[], None]] = []
        self.deliveries = Deliveries(ledger.tell)
        self.steps = Steps()
        self._begin_iterator = module._BaseDataLoaderIter.__init__
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

        begin = self._begin_iterator

        def __init__(iterator: Any, loader: Any) -> None:  # noqa: N807 - as above
            if not loaders.is_away():
                try:
                    loaders.saw_iterator(loader)
                except Exception as error:  # noqa: BLE001 - it is only looked at
                    loaders.give_up(loader, error)
            begin(iterator, loader)

        self._module.DataLoader.__iter__ = __iter__
        self._module._BaseDataLoaderIter.__init__ = __init__
        if any(request.name == "pinned-async" for request in self._orders.requests):
            torch = sys.modules["torch"]
            if torch.cuda.is_available():
                self.deliveries.watch_cuda(torch)
        atexit.register(self.close)

    def watch_stoker(self, module: ModuleType) -> None:
        """See the passes of `stoker.DataLoader`, whose threads torch's own methods know nothing of;
        `module` is `stoker.loader.dataloader`, just imported.
        """
        loaders, kind = self, module.DataLoader
        original = kind._get_iterator

        def _get_iterator(loader: Any) -> Any:
            with suppress(Exception):  # it is only looked at
                is_known = loader in loaders._courses or isinstance(loader._index_sampler, Tap)
                if not loaders.is_away() and not is_known:
                    loaders._leave(loader, _OF_STOKER if _is_training() else _UNTRAINED)
            return original(loader)

        kind._get_iterator = _get_iterator
        self._undo.append(lambda: setattr(kind, "_get_iterator", original))

    def is_away(self) -> bool:
        """True where nothing is to be done: in workers and other children, and after the end."""
        worker = self._module._utils.worker._worker_info
        return os.getpid() != self._pid or worker is not None or not self._is_open

    def feed(self, loader: Any) -> Any:
        """The batches in the loader's place; None where it keeps its own."""
        if loader not in self._courses:
            if not _is_training():
                self._leave(loader, _UNTRAINED)
                return None
            self._courses[loader] = None  # unless all goes well
            self._courses[loader] = self._course(loader)
        course = self._courses[loader]
        if course is None or course.is_over:
            return None
        return course.begin(loader)

    def saw_iterator(self, loader: Any) -> None:
        """An iterator is made for a loader: of a class that keeps its own way it is told once."""
        kind = type(loader)
        is_ours = kind.__iter__ is self._module.DataLoader.__iter__
        if is_ours or loader in self._courses:
            return
        if isinstance(loader._index_sampler, Tap):
            return  # made for a loader that has remedies
        if not _is_training():
            self._leave(loader, _UNTRAINED)
            return
        name = _name_of(loader)
        if self._is_foreign(name) or (kind, name) in self._elsewhere:
            return
        self._elsewhere.add((kind, name))
        why = f"{kind.__qualname__} iterates in a way of its own"
        made = _refused(subject_of(loader, None), self._orders, why)
        account = self._account(name)
        self._ledger.open(account)
        self._note(account, made)

    def give_up(self, loader: Any, error: Exception) -> None:
        """Something of ours broke. Raises nothing into the script."""
        with suppress(Exception):
            self._left[_BROKEN] = None
            self._courses[loader] = None
        with suppress(Exception):  # an error may not even have words
            self._ledger.tell(f"the script keeps its own loader: {type(error).__name__}: {error}")

    def close(self) -> None:
        """Put all back, and tell what came of it."""
        if os.getpid() != self._pid or not self._is_open:
            return
        self._is_open = False
        self._module.DataLoader.__iter__ = self._iterate
        self._module._BaseDataLoaderIter.__init__ = self._begin_iterator
        self.deliveries.undo()
        self.steps.undo()
        for put_back in self._undo:
            put_back()
        if self.steps.count and self._ledger.is_empty and not multiprocessing.parent_process():
            self._ledger.tell(f"nothing was applied: {self._nothing_seen()}")
        self._ledger.close()

    def _nothing_seen(self) -> str:
        seen = f"the optimizer has made {self.steps.count} steps"
        if self._left:
            return "; ".join((seen, *self._left))
        if self._orders.dataset is not None:
            return f"{seen}, and no DataLoader gave batches of {self._orders.dataset} to any"
        return f"{seen}, and their batches came from no torch DataLoader"

    def _leave(self, loader: Any, why: str) -> None:
        """A loader has no account: for the line at the end where none has."""
        if not self._is_foreign(_name_of(loader)):
            self._left[why] = None

    # -- one loader --------------------------------------------------------------------------------

    def _course(self, loader: Any) -> LoaderCourse | None:
        name = _name_of(loader)
        if self._is_foreign(name):
            return None
        subject = subject_of(
            loader, self._orders.batch_bytes, seen_worker_bytes=self._orders.worker_bytes
        )
        # Scripts that make their loader anew for each epoch have one account and one trial.
        size = loader.batch_size or getattr(loader.batch_sampler, "batch_size", None)
        kind = (name, size, subject.settings, _kinds_of(loader._index_sampler))
        like = self._likes.get(kind)
        if like is not None and like.account.rolled_back is not None:
            return None
        if like is not None and like.batch_bytes is not None:
            subject = replace(subject, batch_bytes=like.batch_bytes)
        dropped = like.proof.dropped if like is not None else set()
        requests = [one for one in self._orders.requests if one not in dropped]
        made = plan(subject, requests)
        if subject.is_iterable:
            why = "an iterable data set has no order that could be handed on"
            made = _refused(subject, self._orders, why)
        if like is None:
            proof = Proof.of(
                made,
                self._orders,
                samples=_samples_of(loader.dataset),
                batches=length_of(loader),
            )
            self._likes[kind] = like = _Like(self._account(name), proof)
        # Some evaluations take their batches with gradients on: once the optimizer has begun, a
        # loader has to show that its steps follow.
        trains = not self.steps.count or like.trains_on(loader.dataset)
        announce = partial(self._announce, like, loader.dataset)
        if not trains:
            self._left[_UNFOLLOWED] = None  # until one is
        if not made.applied:
            if trains:
                announce(made)
            return None
        is_sized = subject.batch_bytes is not None or not made.settings.workers
        return LoaderCourse(
            loader,
            made,
            like.account,
            iterate=self._iterate,
            deliveries=self.deliveries,
            tell=self._ledger.tell,
            orders=self._orders,
            steps=self.steps,
            proof=like.proof,
            announce=announce,
            trains=trains,
            replan=None if is_sized else partial(_sized, like, made, requests),
        )

    def _announce(self, like: _Like, dataset: Any, made: Plan) -> None:
        """A loader trains, or is followed by the optimizer's steps, and what is applied stands."""
        like.remember(dataset)
        if self._ledger.open(like.account):
            self._note(like.account, made)

    def _is_foreign(self, name: str) -> bool:
        """True for other data sets than the one that a diagnosis is about."""
        return self._orders.dataset is not None and self._orders.dataset != name

    def _account(self, name: str) -> LoaderAccount:
        account = LoaderAccount(name)
        account.baseline = self._orders.baseline
        account.wanted_batches = self._orders.checked_batches
        return account

    def _note(self, account: LoaderAccount, made: Plan) -> None:
        account.in_order = made.settings.in_order
        account.workers = {Way.OWN: made.subject.settings.workers}
        account.workers[Way.REMEDIED] = made.settings.workers
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


class _Courses:
    """What became of each loader, for as long as it lives: of itself, whatever equals it, as a
    class of the script's may compare in its own way and have no hash.
    """

    def __init__(self) -> None:
        self._kept: dict[int, tuple[weakref.ref[Any], LoaderCourse | None]] = {}

    def __contains__(self, loader: Any) -> bool:
        return id(loader) in self._kept

    def __getitem__(self, loader: Any) -> LoaderCourse | None:
        return self._kept[id(loader)][1]

    def __setitem__(self, loader: Any, course: LoaderCourse | None) -> None:
        number, kept = id(loader), self._kept
        # Its number may be another's next.
        holder = weakref.ref(loader, lambda _: kept.pop(number, None))
        kept[number] = (holder, course)


@dataclass
class _Like:
    """What loaders of one kind have in common."""

    account: LoaderAccount
    proof: Proof
    batch_bytes: int | None = None  # of the first batch, where no diagnosis has told it
    _dataset: Callable[[], Any] = _nothing  # that one of them has trained on

    def remember(self, dataset: Any) -> None:
        """A loader over that data set trains."""
        with suppress(TypeError):  # a plain list can't be referenced weakly
            self._dataset = weakref.ref(dataset)

    def trains_on(self, dataset: Any) -> bool:
        """True where an earlier one, over the very same data set, was seen to."""
        return dataset is not None and self._dataset() is dataset


def _refused(subject: Subject, orders: Orders, why: str) -> Plan:
    """A plan that refuses all that was asked for."""
    refused = tuple((request, Refusal(why)) for request in orders.requests)
    return Plan(subject, subject.settings, (), refused)


def _sized(like: _Like, made: Plan, requests: Sequence[Request], batch_bytes: int) -> Plan:
    """The plan for batches of that size. A pack was compared with the data set, and remains."""
    like.batch_bytes = batch_bytes
    packs = {request: change for request, change in made.applied if request.name == "pack"}
    return plan(replace(made.subject, batch_bytes=batch_bytes), requests, known=packs)


def _samples_of(dataset: Any) -> int | None:
    try:
        return len(dataset)
    except TypeError:
        return None


def _kinds_of(sampler: Any) -> tuple[type, ...]:
    """The classes of a sampler and of those within it."""
    found: list[type] = []
    while sampler is not None and len(found) < _DEEPEST:
        found.append(type(sampler))
        within = getattr(sampler, "batch_sampler", None)
        sampler = within if within is not None else getattr(sampler, "sampler", None)
    return tuple(found)


def _name_of(loader: Any) -> str:
    kind = type(loader.dataset)
    return f"{kind.__module__}.{kind.__qualname__}"


def _is_training() -> bool:
    torch = sys.modules["torch"]
    return bool(torch.is_grad_enabled()) and not torch.is_inference_mode_enabled()
