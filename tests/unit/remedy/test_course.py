"""One loader under treatment: what its trial is about, and which errors end in its own way."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from stoker.remedy.apply import plan
from stoker.remedy.course import LoaderCourse
from stoker.remedy.delivery import Deliveries
from stoker.remedy.ledger import LoaderAccount
from stoker.remedy.orders import Orders
from stoker.remedy.proof import Proof
from stoker.remedy.request import parse
from stoker.remedy.steps import Cycles, Steps
from stoker.remedy.supply import settings_of
from stoker.remedy.trial import Way
from tests.unit.remedy.subjects import subject_of

torch = pytest.importorskip("torch")


def course(
    remedies: str, *, workers: int, trains: bool = True, orders: Orders | None = None
) -> LoaderCourse:
    """Of a loader that is never iterated: no worker is started."""
    data = torch.utils.data.TensorDataset(torch.arange(8))
    loader = torch.utils.data.DataLoader(data, num_workers=workers)
    requests = parse(remedies)
    orders = orders or Orders(requests=requests)
    made = plan(subject_of(settings_of(loader), data), requests)
    return LoaderCourse(
        loader,
        made,
        LoaderAccount("Data"),
        iterate=iter,
        deliveries=Deliveries(print),
        tell=print,
        orders=orders,
        steps=Steps(),
        proof=Proof.of(made, orders, samples=8, batches=8),
        announce=lambda _: None,
        trains=trains,
    )


def gave(made: LoaderCourse, way: Way, entry: Any = None) -> None:
    """A batch of the loader that is the way's now."""
    made.gave(way, entry, None, made.supply(way).settings)


def failed(made: LoaderCourse, told: str) -> bool:
    """The remedied loader raised."""
    return made.failed(RuntimeError(told), made.supply(Way.REMEDIED).settings)


@pytest.mark.parametrize("is_given", [True, False])
def test_unordered_batches_are_not_made_again_once_one_was_given(is_given: bool) -> None:
    made = course("workers=3,unordered", workers=2)
    if is_given:  # in the middle of an epoch, as a trial begins
        gave(made, Way.REMEDIED, [0])
    assert failed(made, "a worker died") is not is_given


def test_the_kind_of_an_error_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert failed(course("overlap=2", workers=0), "Traceback:\nRuntimeError: no handle")
    assert capsys.readouterr().out.endswith(" again: RuntimeError: no handle\n")


@pytest.mark.parametrize(("workers", "is_about_epochs"), [(0, False), (2, True)])
def test_workers_that_live_on_save_time_between_epochs_where_others_were_started(
    workers: int, is_about_epochs: bool
) -> None:
    made = course("workers=3,persistent-workers", workers=workers)
    assert made.proof._trial.is_about_epochs is is_about_epochs


def test_batches_that_are_taken_in_bursts_count_as_their_mean() -> None:
    steps = Steps()
    cycles = Cycles(steps)
    cycles.given("own")
    assert cycles.periods(2.0) == [2.0]  # no optimizer is known
    steps.count += 1
    assert cycles.periods(2.0) == [2.0]
    assert cycles.periods(0.0) == []
    assert cycles.periods(1.0) == []
    steps.count += 1
    assert cycles.periods(5.0) == [2.0, 2.0, 2.0]
    assert cycles.periods(1.0) == []
    cycles.given("remedied")  # in the midst of a cycle: what is left of it is left out
    steps.count += 1
    assert cycles.periods(5.0) == []
    assert [cycles.periods(0.5), cycles.periods(0.5)] == [[], []]
    steps.count += 1
    assert cycles.periods(5.0) == [2.0, 2.0, 2.0]
    steps.count += 1  # in the step across the change
    cycles.given("own")
    assert [cycles.periods(1.0), cycles.periods(1.0)] == [[], []]
    steps.count += 1
    assert cycles.periods(4.0) == [2.0, 2.0, 2.0]  # a whole one


def test_where_every_batch_is_a_step_a_stretch_loses_none() -> None:
    steps = Steps()
    cycles = Cycles(steps)
    for kind in ("own", "remedied", "own"):
        cycles.given(kind)
        for _ in range(3):
            steps.count += 1
            assert cycles.periods(1.0) == [1.0]


def test_two_batches_taken_before_the_first_step_of_an_epoch_are_left_out() -> None:
    steps = Steps()
    cycles = Cycles(steps)
    for epoch in range(3):
        cycles.cut()
        cycles.given("own")
        assert cycles.periods(0.0) == ([0.0] if not steps.count else [])
        steps.count += 1
        assert cycles.periods(2.0) == ([2.0] if epoch == 0 else [])
        steps.count += 1
        assert cycles.periods(2.0) == [2.0]


@pytest.mark.parametrize("epoch", [9, 16, 30])
def test_what_an_epoch_or_a_change_of_way_cuts_is_no_whole_cycle(epoch: int) -> None:
    """A step of the optimizer every four batches, counted on from epoch to epoch."""
    made = course("overlap=2", workers=0)
    ways = (Way.OWN, Way.REMEDIED)
    number = 0
    for _ in range(20):
        made.begin(made._loader)
        before = None
        for place in range(epoch):
            way = ways[place * 2 // epoch] if epoch == 30 else Way.OWN
            if way is before:
                made.stepped(way, 9.0 if number % 4 == 0 else 1.0)
            gave(made, way)
            before = way
            number += 1
            made._steps.count += number % 4 == 0
    account = made._account
    for way in ways if epoch == 30 else ways[:1]:
        steps = account.steps[way].mean()
        assert steps is not None and steps.count >= 40
        assert steps.seconds == pytest.approx(3.0)


def test_a_loader_that_is_found_to_train_counts_its_first_cycle_whole() -> None:
    made = course("overlap=2", workers=0, trains=False)
    made._steps.count = 1
    gave(made, Way.OWN)
    for seconds in (1.0, 1.0):
        made.asked()
        made.stepped(Way.OWN, seconds)
        gave(made, Way.OWN)
    made._steps.count += 1
    made.asked()
    made.stepped(Way.OWN, 4.0)
    own = made._account.steps[Way.OWN]
    assert (own.count, own.sum_s) == (3, 6.0)
    assert made._account.cycle == 3


def test_the_optimizers_steps_are_counted_by_its_own_hook_until_it_is_taken_away() -> None:
    hooks: list[Any] = []

    def register(hook: Any) -> Any:
        hooks.append(hook)
        return SimpleNamespace(remove=lambda: hooks.remove(hook))

    steps = Steps()
    steps.watch(ModuleType("older"))  # without such a hook
    steps.watch(SimpleNamespace(register_optimizer_step_post_hook=register))  # type: ignore[arg-type]
    for hook in hooks * 2:
        hook("optimizer", (), {})
    assert steps.count == 2
    steps.undo()
    assert hooks == []


def test_what_arrives_behind_a_roll_back_keeps_nothing() -> None:
    made = course("workers=3", workers=2)
    while made.proof.way is Way.OWN:
        made.stepped(Way.OWN, 1.0)
    assert failed(made, "no handle")
    for _ in range(200):
        made.stepped(Way.REMEDIED, 0.1)
    assert made._account.kept is False


def kept_for_epochs(orders: Orders | None = None) -> LoaderCourse:
    """Workers that live on, kept by steps that are no slower."""
    made = course("persistent-workers", workers=2, orders=orders)
    made._is_known = True
    while made._account.kept is None:
        made.stepped(made.proof.way, 0.1)
    return made


@pytest.mark.parametrize(("start_s", "is_kept"), [(0.5, True), (2.0, False), (3.0, False)])
def test_workers_that_live_on_have_to_shorten_the_starts_of_epochs(
    start_s: float, is_kept: bool
) -> None:
    made = kept_for_epochs()
    made.started(Way.OWN, 2.0)
    for seconds in (2.5, start_s):  # the first one has started them
        made.started(Way.REMEDIED, seconds)
    assert made._account.kept is is_kept


@pytest.mark.parametrize(("start_s", "is_kept"), [(0.5, True), (0.8, False)])
def test_the_start_of_an_epoch_is_known_from_a_diagnosis_too(start_s: float, is_kept: bool) -> None:
    # Eight batches an epoch: 0.7 s at its start over a step of 0.1 s.
    requests = parse("persistent-workers")
    orders = Orders(requests=requests, baseline_s=0.1875, edge_s=0.0875)
    made = kept_for_epochs(orders)
    for seconds in (0.8, start_s):
        made.started(Way.REMEDIED, seconds)
    assert made._account.kept is is_kept


def test_starts_that_are_shorter_do_not_pay_for_slower_steps() -> None:
    made = course("persistent-workers", workers=2)
    while made._account.kept is None:
        made.stepped(made.proof.way, 0.1 if made.proof.way is Way.OWN else 0.104)
    made.started(Way.OWN, 0.11)
    for seconds in (0.11, 0.1):
        made.started(Way.REMEDIED, seconds)
    assert "of its steps lost" in (made._account.rolled_back or "")
