"""Where a thread is inside its steps, told by samples of its stack."""

from __future__ import annotations

import threading
import time

from stoker.probe.stacks import StackSampler


def busy(until: threading.Event) -> None:
    while not until.is_set():
        pass


def idle(until: threading.Event) -> None:
    until.wait()


def sampled(steps: int) -> dict[str, object]:
    """A thread that computes in its step and waits after it; `steps` of them are whole."""
    changes, ended = threading.Event(), threading.Event()

    def loop() -> None:
        busy(changes)
        idle(ended)

    thread = threading.Thread(target=loop)
    thread.start()
    sampler = StackSampler(thread, None)
    began = time.perf_counter()
    time.sleep(0.1)
    changes.set()
    middle = time.perf_counter()
    time.sleep(0.2)
    told = sampler.stop([(began, middle)][:steps])
    ended.set()
    thread.join()
    return told


def test_what_is_computed_inside_a_step_is_its_own() -> None:
    told = sampled(1)

    places = told["places"]
    assert isinstance(places, list)
    assert {place["function"] for place in places} == {"busy"}, "the time after the step counts"


def test_a_step_that_was_not_ended_is_no_step() -> None:
    assert sampled(0) == {"samples": 0}
