"""Scripts without torch: what the conductor is told about their library."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from stoker.probe.pipeline import Pipeline, PipelineRehearsal
from stoker.probe.plain_view import PlainView
from stoker.probe.tracks import Track


@pytest.fixture
def written() -> list[tuple[str, dict[str, Any]]]:
    return []


@pytest.fixture
def view(written: list[tuple[str, dict[str, Any]]]) -> PlainView:
    session = SimpleNamespace(write=lambda kind, **fields: written.append((kind, fields)))
    return PlainView(session)  # type: ignore[arg-type]


def test_jax_is_waited_for_where_it_is_imported(
    view: PlainView, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[Any] = []
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    view.synchronize()
    jax = SimpleNamespace(live_arrays=lambda: ["a"], block_until_ready=waited.append)
    monkeypatch.setitem(sys.modules, "jax", jax)
    view.synchronize()
    assert waited == [["a"]]


def test_an_iterable_is_drained_once_beside_the_script(
    view: PlainView, written: list[tuple[str, dict[str, Any]]]
) -> None:
    track = Track(Pipeline([1, 2, 3]), {"batches": 3, "workers": 0})
    rehearsal = view.rehearsal(track, None, ())
    assert isinstance(rehearsal, PipelineRehearsal)
    assert len(rehearsal.drain("L", 0, batches=7, limit_s=60.0)) == 7
    assert rehearsal.drain("L", 0, batches=7, limit_s=60.0) == []
    ((kind, line),) = written
    assert (kind, line["what"], line["workers"], len(line["periods"])) == ("drain", "L", 0, 7)


@pytest.mark.parametrize(("what", "workers"), [("L", 2), ("S", 0), ("N", 1), ("T", 1)])
def test_legs_that_need_a_data_set_or_workers_are_left_out(
    view: PlainView, what: str, workers: int
) -> None:
    rehearsal = view.rehearsal(Track(Pipeline([1]), {"batches": 1, "workers": 0}), None, ())
    assert rehearsal.drain(what, workers, batches=2, limit_s=1.0) == []


def test_an_iterator_is_never_drained(view: PlainView) -> None:
    rehearsal = view.rehearsal(Track(Pipeline(None), {"batches": None, "workers": 0}), None, ())
    assert rehearsal.drain("L", 0, batches=2, limit_s=1.0) == []


def test_an_iterable_that_is_empty_the_second_time_says_so(view: PlainView) -> None:
    rehearsal = view.rehearsal(Track(Pipeline([]), {"batches": 0, "workers": 0}), None, ())
    with pytest.raises(RuntimeError, match="no batch when iterated again"):
        rehearsal.drain("L", 0, batches=2, limit_s=1.0)
