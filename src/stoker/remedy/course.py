"""One loader of the script under treatment: its remedies, the trial of them, its account.

Everything that goes wrong here ends with the script's own loader.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable
from typing import Any

from stoker.random_state import drawn_base
from stoker.remedy.apply import Plan
from stoker.remedy.cache_ram import RamCache
from stoker.remedy.certificate import Certificate
from stoker.remedy.delivery import Deliveries
from stoker.remedy.feed import Aside, Course, Feed
from stoker.remedy.fingerprint import fingerprint
from stoker.remedy.indices import Indices
from stoker.remedy.ledger import LoaderAccount, milliseconds
from stoker.remedy.orders import Orders
from stoker.remedy.settings import Settings
from stoker.remedy.staging import HELD
from stoker.remedy.steps import Cycles, Steps
from stoker.remedy.supply import Iterate, Supply, length_of, settings_of
from stoker.remedy.trial import Trial, Way
from stoker.remedy.watched_order import WatchedOrder

Tell = Callable[[str], None]

# The data set is looked at around each of the first batches of an epoch, later around one of some.
_LOOKS, _LOOK_EVERY = 16, 8


class LoaderCourse:
    """A `feed.Course`."""

    def __init__(
        self,
        loader: Any,
        plan: Plan,
        account: LoaderAccount,
        *,
        iterate: Iterate,
        deliveries: Deliveries,
        tell: Tell,
        orders: Orders,
        steps: Steps,
        trial: Trial | None = None,
        found_to_train: Callable[[], None] | None = None,
    ) -> None:
        """`trial`: of an earlier loader like this one, for scripts that make one every epoch.
        `found_to_train`: called once an optimizer's step has followed a batch; until then the
        loader may be one of an evaluation, and is the script's own. None: it trains for sure.
        """
        self._loader = copy.copy(loader)  # the loader itself would never be let go
        self._certificate = Certificate(self._loader, orders.checked_batches)
        self._plan = plan
        self._account = account
        self._iterate = iterate
        self._deliveries = deliveries
        self._tell = tell
        own = settings_of(loader)
        self._own = own
        # Workers that the script keeps were given their base seed once; torch draws none later.
        self._has_drawn = own.persistent and loader._iterator is not None
        self._length = length_of(loader)
        self.trial = trial or Trial(
            baseline_s=account.baseline_s,
            depth=plan.settings.depth + (HELD if plan.settings.is_fed else 0),
            window_s=orders.window_s,
            # A script without workers starts none at an epoch: no time is lost there.
            is_about_epochs=plan.settings.persistent and own.workers > 0 and not own.persistent,
        )
        settings: dict[Way, Settings] = {Way.OWN: own, Way.REMEDIED: plan.settings}
        self._supplies = {
            way: Supply(loader, settings[way], iterate, early=deliveries) for way in Way
        }
        self._seen: Any = None  # the data set as the workers and caches know it
        self._in_epoch: Any = None  # the same behind the first batch, for which files are opened
        self._given = 0  # batches of this epoch
        self._has_given_remedied = False
        self._is_loose = False  # this epoch has given a batch that came in any order
        self._order: WatchedOrder | None = None
        # Of the sampler of an earlier loader like this one enough was seen.
        self._is_known = trial is not None and trial.found is not None
        self._feed: weakref.ref[Feed] | None = None
        self._is_over = False
        self._steps = steps
        self._cycles = Cycles(steps)
        self._found_to_train = found_to_train
        self._untold: str | None = None  # why it was rolled back before it was found to train
        self._steps_before = 0  # the optimizer's, when the last batch was given

    @property
    def is_over(self) -> bool:
        """True when the remedies were rolled back: the script has its own loader again.

        Never where the script keeps its workers: its own loader has none yet, and would draw a base
        seed for them.
        """
        return self._is_over and not self._own.persistent

    def begin(self, loader: Any) -> Feed:
        """The next epoch. One that is still under way, which need not be asked again, goes on as
        the script has it. Where it can't be told which of its batches are missing, as they come in
        any order, it goes on as it is, and the next one is as the script has it.
        """
        before = self._feed() if self._feed is not None else None
        if before is not None and not before.is_over:
            own = Supply(self._loader, self._own, self._iterate, early=self._deliveries)
            if self._is_loose:
                return self._pass(Aside(own), loader, WatchedOrder(loader))
            before.hand_over(Aside(own))
        now = self._look()
        if self._seen is not None and now != self._seen:
            self._supplies[Way.REMEDIED].renew()
        self._seen = now
        self._in_epoch, self._given, self._is_loose = None, 0, False
        self._cycles.cut()
        self._order = WatchedOrder(loader)
        feed = self._pass(self, loader, self._order)
        self._feed = weakref.ref(feed)
        return feed

    def _pass(self, course: Course, loader: Any, order: WatchedOrder) -> Feed:
        """A feed that draws and pulls where the script's own iterator would."""
        indices = Indices(order)
        base = None if self._has_drawn else drawn_base(loader.generator)
        self._has_drawn = self._own.persistent
        if self._own.workers:
            indices.pull_ahead(self._own.depth)  # in iter(), where the script's workers would
        return Feed(course, indices, self._length, base=base, waits=not self._own.workers)

    # -- told by the feed --------------------------------------------------------------------------

    @property
    def way(self) -> Way:
        """How the next batches should be loaded."""
        if not self._is_known and self._order is not None:
            self._is_known = self._order.is_known
        is_free = self._is_known and not self._is_over and self._found_to_train is None
        return self.trial.way if is_free else Way.OWN

    def supply(self, way: Way) -> Supply:
        """The loader for a way."""
        return self._supplies[way]

    def started(self, way: Way, seconds: float) -> None:
        """From iter() to the first batch."""
        if self._found_to_train is None:
            self._account.starts[way].append(seconds)

    def stepped(self, way: Way, seconds: float) -> None:
        """A step of the script, from batch to batch."""
        periods = self._cycles.periods(seconds)
        if self._found_to_train is not None:
            return
        for each in periods:
            self._account.step(way, each)
            # Behind a roll-back the batches on their way still come: they decide nothing any more.
            if self.trial.found is None and not self._is_over:
                self.trial.step(way, each)
                self._account.own_seen_s = self.trial.own_s
                self._conclude()

    def asked(self) -> bool:
        """The script asks for a batch; True when those in flight were made of another data set."""
        if self._found_to_train is not None and self._has_trained():
            found, self._found_to_train = self._found_to_train, None
            found()
            if self._untold is not None:
                self._roll_back(self._untold)
        if self._is_over or not self._is_time_to_look() or self._look() == self._in_epoch:
            return False
        self._roll_back("the script changes the data set or collate_fn within the epoch")
        # Workers of the script's own would not have heard of it before the next epoch.
        return self._own.workers == 0 and self._plan.settings.in_order

    def gave(self, way: Way, entry: Any, batch: Any) -> None:
        """The script gets this batch now."""
        # What is made here changes the script's own objects; what workers make, their copies.
        is_made_here = self._supplies[way].settings.workers == 0
        if self._is_over:
            pass
        elif self._order is not None and self._order.problem is not None:
            self._roll_back(self._order.problem)
        elif is_made_here and self._is_time_to_look() and self._look() != self._in_epoch:
            self._roll_back("making batches changes the data set or collate_fn")
        if self._given == 0:
            self._in_epoch = self._look()
        self._given += 1
        self._is_loose = self._is_loose or not self._supplies[way].settings.in_order
        self._steps_before = self._steps.count
        self._cycles.given(way)
        if way is Way.REMEDIED:
            self._has_given_remedied = True
            if not self._certificate.is_complete and self._plan.settings.in_order:
                self._certificate.check(entry, batch)
                self._account.certificate = self._certificate.sentence
                self._account.certified = self._certificate.as_record()
                if self._certificate.odd or self._freezes:
                    self._roll_back(self._certificate.sentence)
            if self._plan.settings.delivers_early:
                self._deliveries.given(batch)
            problem = self._supplies[way].problem()
            if problem is not None and problem not in self._account.notes:
                self._account.notes.append(problem)
                self._tell(problem)

    def _has_trained(self) -> bool:
        return self._given > 0 and self._steps.count > self._steps_before

    @property
    def _freezes(self) -> bool:
        """True when parts that draw random numbers would be given again from a cache."""
        layers = self._plan.settings.layers
        keeps = any(isinstance(layer, RamCache) and layer.is_keeping for layer in layers)
        return keeps and bool(self._certificate.differing)

    def failed(self, error: BaseException) -> bool:
        """The remedied loader raised: the batches in flight are made as the script makes them.

        Where batches come in any order it can't be told which are missing: the error stands.
        """
        if not self._plan.settings.in_order and self._has_given_remedied:
            return False
        kind = f"{type(error).__name__}: "
        last = (str(error).strip().splitlines() or [""])[-1]
        # What a worker raised comes as its traceback, whose last line names the kind already.
        self._roll_back(kind + last.removeprefix(kind)[:200])
        return True

    def _look(self) -> Any:
        return fingerprint(self._loader.dataset), fingerprint(self._loader.collate_fn)

    def _is_time_to_look(self) -> bool:
        return 0 < self._given <= _LOOKS or (self._given > 0 and self._given % _LOOK_EVERY == 0)

    def _conclude(self) -> None:
        found = self.trial.found
        if found is None:
            return
        if found.is_kept:
            self._account.kept = True
            if found.own_s is not None:
                self._tell(
                    f"step {milliseconds(found.own_s)} → {milliseconds(found.remedied_s)}: kept"
                )
            return
        before = milliseconds(found.own_s) if found.own_s is not None else "unknown"
        self._roll_back(f"no gain: step {before} without, {milliseconds(found.remedied_s)} with")

    def _roll_back(self, why: str) -> None:
        self._is_over = True
        if self._found_to_train is not None:
            # Nothing was applied; of a loader that does not train nothing is told.
            self._untold = why
            return
        self._account.kept = False
        self._account.rolled_back = why
        self._tell(f"rolled back, the script has its own loader again: {why}")
