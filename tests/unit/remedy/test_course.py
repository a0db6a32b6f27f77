"""One loader under treatment: what its trial is about, and which errors end in its own way."""

from __future__ import annotations

import pytest

from stoker.remedy.apply import plan
from stoker.remedy.course import LoaderCourse
from stoker.remedy.delivery import Deliveries
from stoker.remedy.ledger import LoaderAccount
from stoker.remedy.orders import Orders
from stoker.remedy.request import parse
from stoker.remedy.settings import Subject
from stoker.remedy.supply import settings_of
from stoker.remedy.trial import Way

torch = pytest.importorskip("torch")


def course(remedies: str, *, workers: int) -> LoaderCourse:
    """Of a loader that is never iterated: no worker is started."""
    data = torch.utils.data.TensorDataset(torch.arange(8))
    loader = torch.utils.data.DataLoader(data, num_workers=workers)
    requests = parse(remedies)
    subject = Subject(
        settings=settings_of(loader),
        dataset=data,
        is_iterable=False,
        cores=4.0,
        shm_free_bytes=None,
        memory_available_bytes=None,
        worker_bytes=1,
        batch_bytes=None,
        has_device=False,
    )
    return LoaderCourse(
        loader,
        plan(subject, requests),
        LoaderAccount("Data"),
        iterate=iter,
        deliveries=Deliveries(print),
        tell=print,
        orders=Orders(requests=requests),
    )


@pytest.mark.parametrize("is_given", [True, False])
def test_unordered_batches_are_not_made_again_once_one_was_given(is_given: bool) -> None:
    made = course("workers=3,unordered", workers=2)
    if is_given:  # in the middle of an epoch, as a trial begins
        made.gave(Way.REMEDIED, [0], None)
    assert made.failed(RuntimeError("a worker died")) is not is_given


def test_the_kind_of_an_error_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert course("overlap=2", workers=0).failed(
        RuntimeError("Traceback:\nRuntimeError: no handle")
    )
    assert capsys.readouterr().out.endswith(" again: RuntimeError: no handle\n")


@pytest.mark.parametrize(("workers", "is_about_epochs"), [(0, False), (2, True)])
def test_workers_that_live_on_save_time_between_epochs_where_others_were_started(
    workers: int, is_about_epochs: bool
) -> None:
    made = course("workers=3,persistent-workers", workers=workers)
    assert made.trial.is_about_epochs is is_about_epochs
