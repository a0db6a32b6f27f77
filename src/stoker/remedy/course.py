"""One loader of the script under treatment: its remedies, the trial of them, its account.

Everything that goes wrong here ends with the script's own loader.
"""

from __future__ import annotations

import copy
import os
import statistics
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from stoker.probe.snapshot import size_of
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
from stoker.remedy.proof import Doubted, Dropped, Kept, Proof, Useless, Verdict
from stoker.remedy.request import Request
from stoker.remedy.settings import Settings
from stoker.remedy.steps import Cycles, Steps
from stoker.remedy.supplies import Supplies
from stoker.remedy.supply import Iterate, Supply, length_of, settings_of
from stoker.remedy.trial import WORTH, Found, Way
from stoker.remedy.watched_order import WatchedOrder

Tell = Callable[[str], None]
# The plan anew, now that the bytes of a batch are known.
Replan = Callable[[int], Plan]

# The data set is looked at around each of the first batches of an epoch, later around one of some.
_LOOKS, _LOOK_EVERY = 16, 8

_KEPT_WORKERS = Request("persistent-workers")


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
        proof: Proof,
        announce: Callable[[Plan], None],
        trains: bool = True,
        replan: Replan | None = None,
    ) -> None:
        """`proof`: of an earlier loader like this one, for scripts that make one every epoch.
        `trains`: False until an optimizer's step has followed a batch; until then the loader may be
        one of an evaluation, and is the script's own. `announce`: told once what is applied, when
        that stands and the loader trains. `replan`: given where it takes the size of a batch to say
        what may be applied; the first one is the script's own then.
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
        self._pid = os.getpid()
        # Workers that the script keeps were given their base seed once; torch draws none later.
        self._has_drawn = own.persistent and loader._iterator is not None
        self._length = length_of(loader)
        self.proof = proof
        make = partial(Supply, self._loader, iterate=iterate, early=deliveries)
        self._supplies = Supplies(make, own, plan)
        self._seen: Any = None  # the data set as the workers and caches know it
        self._in_epoch: Any = None  # the same behind the first batch, for which files are opened
        self._given = 0  # batches of this epoch
        self._has_given_remedied = False
        self._is_loose = False  # this epoch has given a batch that came in any order
        self._order: WatchedOrder | None = None
        # Of the sampler of an earlier loader like this one enough was seen.
        self._is_known = proof.has_found
        self._feed: weakref.ref[Feed] | None = None
        self._is_over = False
        self._steps = steps
        self._cycles = Cycles(steps)
        self._trains = trains
        self._announce: Callable[[Plan], None] | None = announce
        self._replan = replan
        self._orders = orders
        self._untold: str | None = None  # why it was rolled back before it was found to train
        self._steps_before = 0  # the optimizer's, when the last batch was given
        self._announce_if_due()

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
        self._release()
        try:
            now = self._look()
            if self._seen is not None and now != self._seen:
                self._supplies.renew()
            self._seen = now
        except Exception as error:  # noqa: BLE001 - whatever breaks here is not the script's
            self._break_off(error)
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
        is_free = self._is_known and self._trains and self._replan is None
        return self.proof.way if is_free and not self._is_over else Way.OWN

    def supply(self, way: Way) -> Supply:
        """The loader for a way."""
        try:
            return self._supplies.of(way, self.proof.left_out)
        except Exception as error:  # noqa: BLE001 - the script's own is always there
            self._break_off(error)
            return self._supplies.of(Way.OWN)

    def left(self) -> None:
        """The batches of a way have come, and those of another begin, or the epoch is over: of a
        way that comes no more neither workers nor caches are kept.
        """
        if os.getpid() != self._pid:
            return  # a child that was forked in between, at its end
        with suppress(Exception):  # whatever is left of it, the training goes on
            self._release()

    def _release(self) -> None:
        coming = Way.OWN if self._is_over else self.proof.way
        self.supply(coming)  # which may be made for it
        if self._is_over or self.proof.is_at_rest:
            self._supplies.retire_all_but(coming)
        # While trials go on the remedied loader keeps what it has, whatever way is on.
        kept = () if self._is_over else (Way.REMEDIED,)
        self._supplies.release(coming, *kept)

    def started(self, way: Way, seconds: float) -> None:
        """From iter() to the first batch."""
        if self._trains:
            self._account.start(way, seconds)
            if way is Way.REMEDIED and not self._is_over:
                try:
                    self._judge_starts()
                except Exception as error:  # noqa: BLE001 - whatever breaks here is not the script's
                    self._break_off(error)

    def stepped(self, way: Way, seconds: float) -> None:
        """A step of the script, from batch to batch."""
        periods = self._cycles.periods(seconds)
        if not self._trains:
            return
        self._account.cycle = max(self._account.cycle, len(periods))
        for each in periods:
            self._account.step(way, each)
            # Behind a roll-back the batches on their way still come: they decide nothing any more.
            if not self._is_over:
                try:
                    verdict = self.proof.step(way, each)
                    self._account.own_seen = self.proof.own_steps
                    self._conclude(verdict)
                except Exception as error:  # noqa: BLE001 - as above
                    self._break_off(error)

    def asked(self) -> bool:
        """The script asks for a batch; True when those in flight were made of another data set."""
        try:
            return self._asked()
        except Exception as error:  # noqa: BLE001 - as above
            self._break_off(error)
            return False

    def _asked(self) -> bool:
        if not self._trains and self._has_trained():
            self._trains = True
            self._announce_if_due()
            if self._untold is not None:
                self._roll_back(self._untold)
        if self._is_over or not self._is_time_to_look() or self._look() == self._in_epoch:
            return False
        self._roll_back("the script changes the data set or collate_fn within the epoch")
        # Workers of the script's own would not have heard of it before the next epoch.
        return self._own.workers == 0 and self._plan.settings.in_order

    def gave(self, way: Way, entry: Any, batch: Any, settings: Settings) -> None:
        """The script gets this batch now. `settings`: of the loader that made it, which need not be
        the one of its way any more.
        """
        is_time, is_first = self._is_time_to_look(), self._given == 0
        self._given += 1
        self._is_loose = self._is_loose or not settings.in_order
        self._steps_before = self._steps.count
        self._cycles.given(way)
        try:
            self._judge_order(settings, is_first=is_first, is_time=is_time)
            self._judge_batch(way, entry, batch, settings)
        except Exception as error:  # noqa: BLE001 - as above
            self._break_off(error)

    def _judge_order(self, settings: Settings, *, is_first: bool, is_time: bool) -> None:
        if self._is_over:
            return
        # What is made here changes the script's own objects; what workers make, their copies.
        is_made_here = settings.workers == 0
        if self._order is not None and self._order.problem is not None:
            self._roll_back(self._order.problem)
        elif is_made_here and is_time and self._look() != self._in_epoch:
            self._roll_back("making batches changes the data set or collate_fn")
        if is_first:
            self._in_epoch = self._look()

    def _judge_batch(self, way: Way, entry: Any, batch: Any, settings: Settings) -> None:
        self._judge_by_size(batch)
        if way is not Way.OWN:
            self._has_given_remedied = True
            if self.proof.is_filling:
                self._fill(entry)
            if not self._certificate.is_complete and settings.in_order:
                self._certificate.check(entry, batch)
                self._account.certificate = self._certificate.sentence
                self._account.certified = self._certificate.as_record()
                if self._certificate.odd or self._freezes:
                    kept = "" if self._certificate.odd else "; kept, it would never be drawn anew"
                    self._roll_back(self._certificate.sentence + kept)
            if settings.delivers_early:
                self._deliveries.given(batch)
            problem = self._supplies.of(way).problem()
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

    def failed(self, error: BaseException, settings: Settings) -> bool:
        """The remedied loader raised: the batches in flight are made as the script makes them.

        Where batches come in any order it can't be told which are missing: the error stands.
        `settings` as in `gave`.
        """
        if not settings.in_order and self._has_given_remedied:
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

    # -- what becomes of the remedies --------------------------------------------------------------

    def _announce_if_due(self) -> None:
        announce = self._announce
        if announce is not None and self._trains and self._replan is None:
            self._announce = None
            announce(self._plan)

    def _judge_by_size(self, batch: Any) -> None:
        """The preconditions, with the bytes of a batch; before anything was applied."""
        replan, self._replan = self._replan, None
        if replan is None:
            return
        try:
            self._plan = replan(size_of(batch)[0])
            self._supplies.change(self._plan)
        except Exception as error:  # noqa: BLE001 - the script has its own loader all the time
            self._break_off(error)
        if not self._plan.applied:
            self._is_over = True
        self._announce_if_due()

    def _fill(self, entry: Any) -> None:
        held = [each for layer in self._plan.settings.layers if (each := layer.held()) is not None]
        samples = len(entry) if isinstance(entry, list | tuple) else 1
        self.proof.filled(samples, sum(held) if held else None)

    def _conclude(self, verdict: Verdict | None) -> None:
        match verdict:
            case Kept(found):
                self._account.kept = True
                if found.own_s is not None:
                    before, after = milliseconds(found.own_s), milliseconds(found.remedied_s)
                    self._tell(f"step {before} → {after}: kept")
                self.proof.doubt(self._single())
            case Useless(found):
                self._roll_back(_no_gain(found))
            case Dropped(request, found):
                self._drop(request, _no_gain(found))
                self.proof.doubt(self._single())
            case Doubted(step_s):
                slow = f"steps take {milliseconds(step_s)} by now, longer than without remedies"
                self._tell(f"{slow}: tried once more")
            case None:
                pass

    def _single(self) -> list[Request]:
        """What the others can do without; kept workers are judged by the starts of epochs."""
        plan, settings = self._plan, self._plan.settings
        # Workers that live on do so beside those of the trial.
        beside = settings.workers * plan.subject.worker_bytes if settings.persistent else 0
        if plan.subject.lacks_memory(plan.needs_bytes + beside) is not None:
            return []
        requests = [one for one, _ in plan.applied if one != _KEPT_WORKERS]
        return [one for one in requests if plan.without(one) is not None]

    def _judge_starts(self) -> None:
        """Workers that live on have to shorten the starts of epochs by more than steps lose."""
        is_asked = any(one == _KEPT_WORKERS for one, _ in self._plan.applied)
        is_judged = is_asked and self._own.workers > 0 and self.proof.is_at_rest
        kept = self._account.starts[Way.REMEDIED][1:]  # the first one has started them
        before = self._own_start_s
        if not is_judged or not kept or before is None:
            return
        after = statistics.median(kept)
        lost = self.proof.lost_s * (self._length or 0)
        if after + lost > (1 - WORTH) * before:
            told = f"start of an epoch {milliseconds(before)} without, {milliseconds(after)} with"
            slower = f", and {milliseconds(lost)} of its steps lost" if lost else ""
            self._drop(_KEPT_WORKERS, f"no gain: {told}{slower}")

    @property
    def _own_start_s(self) -> float | None:
        """The start of an epoch as the script has it: seen here, or by the diagnosis."""
        seen = self._account.starts[Way.OWN]
        if seen:
            return statistics.median(seen)
        inside_s, edge_s = self._orders.inside_s, self._orders.edge_s
        if inside_s is None or not edge_s or self._length is None:
            return None
        return inside_s + edge_s * self._length

    def _drop(self, request: Request, why: str) -> None:
        """Go on with all remedies but one."""
        pared = self._plan.without(request)
        if pared is None and len(self._plan.applied) > 1:
            return  # the others need it
        if pared is None:
            self._roll_back(why)
            return
        self._plan = pared
        self._supplies.change(pared, dropped=request)
        self.proof.dropped.add(request)
        self._account.drop(request, why)
        self._tell(f"{request} rolled back: {why}")

    def _break_off(self, error: Exception) -> None:
        """What breaks in us ends the remedies, never the training."""
        if not self._is_over:
            self._roll_back(f"{type(error).__name__}: {error}")

    def _roll_back(self, why: str) -> None:
        self._is_over = True
        if not self._trains:
            # Nothing was applied; of a loader that does not train nothing is told.
            self._untold = why
            return
        self._account.kept = False
        self._account.rolled_back = why
        self._tell(f"rolled back, the script has its own loader again: {why}")


def _no_gain(found: Found) -> str:
    before = milliseconds(found.own_s) if found.own_s is not None else "unknown"
    return f"no gain: step {before} without, {milliseconds(found.remedied_s)} with"
