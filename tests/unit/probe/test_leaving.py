"""Leaving the script: raised on the main thread, handed over to it from any other."""

from __future__ import annotations

import threading

import pytest

from stoker.probe import leaving
from stoker.probe.leaving import Leaving, StokerStop


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    slept: list[float] = []
    monkeypatch.setattr(leaving.time, "sleep", slept.append)
    monkeypatch.setattr(leaving, "_end_with_main", lambda: None)  # waits for the end of Python
    return slept


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    done: list[str] = []

    def leave() -> None:
        done.append("left")
        raise StokerStop

    monkeypatch.setattr(leaving, "_leave_at_once", leave)
    return done


def test_the_stop_is_an_exit_with_code_0_and_no_exception_that_scripts_catch() -> None:
    assert StokerStop().code == 0
    assert not issubclass(StokerStop, Exception)


def test_on_the_main_thread_the_stop_is_raised_until_the_script_will_not_let_go(
    left: list[str],
) -> None:
    stop = Leaving()
    for _ in range(20):
        with pytest.raises(StokerStop):
            stop.now(can_go_on=True, has_optimizer=True)
    assert left == []
    with pytest.raises(StokerStop):
        stop.now(can_go_on=True, has_optimizer=True)
    assert left == ["left"]


def _in_thread(stop: Leaving, *, times: int, has_optimizer: bool, can_go_on: bool = True) -> str:
    came: list[str] = []

    def ask() -> None:
        try:
            for _ in range(times):
                stop.now(can_go_on=can_go_on, has_optimizer=has_optimizer)
            came.append("goes on")
        except StokerStop:
            came.append("stopped")

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    return came[0]


def test_a_loading_thread_goes_on_for_the_optimizer_to_stop_the_main_thread() -> None:
    assert _in_thread(Leaving(), times=99, has_optimizer=True) == "goes on"


def test_a_loading_thread_without_batches_to_give_is_stopped_itself() -> None:
    assert _in_thread(Leaving(), times=1, has_optimizer=True, can_go_on=False) == "stopped"


def test_without_an_optimizer_the_main_thread_is_stopped_where_it_stands_and_once() -> None:
    stop, stops = Leaving(), 0
    thread = threading.Thread(
        target=lambda: [stop.now(can_go_on=True, has_optimizer=False) for _ in range(50)]
    )
    for wait in (thread.start, thread.join, thread.join, lambda: [None for _ in range(1000)]):
        try:
            wait()
        except StokerStop:
            stops += 1
    assert stops == 1
    assert not thread.is_alive()


def test_after_a_stop_in_the_step_the_loading_thread_holds_still(no_pauses: list[float]) -> None:
    stop = Leaving()
    _in_thread(stop, times=1, has_optimizer=True)
    with pytest.raises(StokerStop):
        stop.from_step()
    _in_thread(stop, times=1, has_optimizer=True)
    before, after = no_pauses
    assert after > before
