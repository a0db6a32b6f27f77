"""The stand-in for a watched iterable: transparent, and told apart by what lies ready."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stoker.probe.hooks import watch as hook
from stoker.probe.tracks import Track


class Passing:
    """A conductor that hands out the iterable's own batches, or none of them."""

    is_inert = False

    def __init__(self) -> None:
        self.epochs = 0
        self.kept: Any = None  # handed out in place of a batch, when not None
        self.given_up: list[Exception] = []

    def on_epoch(self, track: Track, began: float) -> None:
        self.epochs += 1

    def on_next(self, track: Track, iterator: Any, fetch: Callable[[], Any]) -> Any:
        return fetch() if self.kept is None else self.kept

    def looking_away(self) -> Any:
        return Nothing()

    def give_up(self, error: Exception) -> None:
        self.given_up.append(error)


class Nothing:
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


@pytest.fixture
def conductor() -> Passing:
    return Passing()


@pytest.fixture
def observe(conductor: Passing, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    written: list[tuple[str, dict[str, Any]]] = []
    session = SimpleNamespace(write=lambda kind, **fields: written.append((kind, fields)))
    watch = hook.Watch(session)  # type: ignore[arg-type]
    watch._own = conductor  # type: ignore[assignment]
    monkeypatch.setattr(hook.torch_hooks, "_installed", None)

    def observed(batches: Any, name: str = "train") -> Any:
        return watch.observe(batches, name)

    observed.written = written  # type: ignore[attr-defined]
    return observed


def test_every_iteration_gives_the_batches_of_the_iterable(
    conductor: Passing, observe: Callable[..., Any]
) -> None:
    batches = observe([1, 2, 3])
    assert [list(batches), list(batches)] == [[1, 2, 3], [1, 2, 3]]
    assert conductor.epochs == 2


def test_length_items_truth_and_attributes_are_the_iterables_own(
    observe: Callable[..., Any],
) -> None:
    watched = observe([5, 6])
    assert (len(watched), watched[1], bool(watched), watched.count(5)) == (2, 6, True, 1)
    assert not observe([])
    assert bool(observe(n for n in range(2)))
    with pytest.raises(TypeError, match="len"):
        len(observe(n for n in range(2)))
    with pytest.raises(AttributeError, match="shuffle"):
        _ = watched.shuffle


def test_only_an_iterator_can_be_asked_for_its_next_batch(observe: Callable[..., Any]) -> None:
    watched = observe(iter([1, 2]))
    assert [next(watched), next(watched)] == [1, 2]
    with pytest.raises(StopIteration):
        next(watched)
    with pytest.raises(TypeError, match="'list' object is not an iterator"):
        next(observe([1]))


def test_an_exception_of_the_iterable_passes_through_without_frames_of_the_probe(
    conductor: Passing, observe: Callable[..., Any]
) -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise ValueError("no such shard")

    iterator = iter(observe(broken()))
    assert next(iterator) == 1
    with pytest.raises(ValueError, match="no such shard") as caught:
        next(iterator)
    assert caught.traceback[-1].name == "broken"
    assert conductor.given_up == []


def test_what_breaks_in_the_probe_never_reaches_the_loop(
    conductor: Passing, observe: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(*_: Any) -> Any:
        raise KeyError("ours")

    iterator = iter(observe([1, 2]))
    monkeypatch.setattr(conductor, "on_next", break_down)
    assert next(iterator) == 1
    assert [str(error) for error in conductor.given_up] == ["'ours'"]


def test_async_for_goes_over_its_own_batches(observe: Callable[..., Any]) -> None:
    class Both(list[int]):
        async def __aiter__(self) -> AsyncIterator[int]:
            for batch in self:
                yield batch

    async def stream() -> AsyncIterator[int]:
        for batch in (1, 2):
            yield batch

    async def all_of(batches: Any) -> list[int]:
        return [batch async for batch in batches]

    assert asyncio.run(all_of(observe(stream()))) == [1, 2]
    both = observe(Both([1, 2]))
    assert asyncio.run(all_of(both)) == [1, 2]
    assert isinstance(iter(both), hook.Iteration), "the plain loop is not followed"
    assert not hasattr(observe([1]), "__aiter__")


def test_a_generator_is_closed_with_the_loop_that_watches_it(observe: Callable[..., Any]) -> None:
    closed = []

    def batches() -> Iterator[int]:
        try:
            yield from range(10)
        finally:
            closed.append(True)

    for _ in observe(batches()):
        break
    assert closed == [True]


def test_loops_are_told_apart_by_name_and_validation_does_not_train(
    observe: Callable[..., Any],
) -> None:
    tracks = {
        name: iter(observe([1], name))._track for name in ("train", "val", "Evaluation", "pretrain")
    }
    assert {name: track.learns for name, track in tracks.items()} == {
        "train": True,
        "val": False,
        "Evaluation": False,
        "pretrain": True,
    }
    assert iter(observe([2], "train"))._track is tracks["train"]


def test_batches_that_lie_ready_after_a_pause_are_passed_over(
    conductor: Passing, observe: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock says: 20 ms each while the loop waits, no time for the three that lay ready."""
    now = [0.0]
    takes = iter([0.02] * 4 + [0.0] * 3 + [0.02] * 4)

    def batches() -> Iterator[int]:
        for number, seconds in enumerate(takes):
            now[0] += seconds
            yield number

    monkeypatch.setattr(hook, "clocks", SimpleNamespace(wall_s=lambda: now[0]))
    iterator = iter(observe(batches()))
    assert [next(iterator) for _ in range(4)] == [0, 1, 2, 3]
    conductor.kept = "kept"
    assert next(iterator) == "kept"
    conductor.kept = None
    assert next(iterator) == 7
    assert observe.written == [("lay-ready", {"batches": 3, "usual_s": 0.02})]  # type: ignore[attr-defined]


def test_what_loads_only_when_asked_has_nothing_ready(
    conductor: Passing, observe: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]

    def batches() -> Iterator[int]:
        for number in range(20):
            now[0] += 0.02
            yield number

    monkeypatch.setattr(hook, "clocks", SimpleNamespace(wall_s=lambda: now[0]))
    iterator = iter(observe(batches()))
    next(iterator)
    conductor.kept = "kept"
    next(iterator)
    conductor.kept = None
    assert next(iterator) == 1
    assert observe.written == [("lay-ready", {"batches": 0, "usual_s": 0.02})]  # type: ignore[attr-defined]


def test_the_hook_touches_nothing_but_the_observer(tmp_path: Path) -> None:
    module = SimpleNamespace(observer=None)
    hook.install(SimpleNamespace(), module)  # type: ignore[arg-type]
    assert vars(module).keys() == {"observer"}
    assert module.observer is not None
