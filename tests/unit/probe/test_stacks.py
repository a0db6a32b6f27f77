"""Where a thread is inside its steps, told by samples of its stack."""

from __future__ import annotations

import hashlib
import io
import linecache
import threading
import time
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from stoker.emulate import EmulatedAccelerator, StepHandle, accelerator
from stoker.emulate.host import Host, RealHost
from stoker.probe.stacks import StackSampler

CUDA = "cuda:0 NVIDIA L4"
LONG_S = 0.15


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


def states_of(step: Callable[[], object], device: str | None) -> dict[str, float]:
    """Shares of the time of one step, from its begin to its end, by state."""
    begins, ends, leaves = threading.Event(), threading.Event(), threading.Event()
    times: list[float] = []

    def loop() -> None:
        begins.wait()
        times.append(time.perf_counter())
        step()
        times.append(time.perf_counter())
        ends.set()
        leaves.wait()

    thread = threading.Thread(target=loop)
    thread.start()
    sampler = StackSampler(thread, device)
    begins.set()
    ends.wait()
    told: dict[str, Any] = sampler.stop([(times[0], times[1])])
    leaves.set()
    thread.join()
    states: dict[str, float] = told["states"]
    return states


def is_mostly(state: str, states: dict[str, float]) -> bool:
    return states.get(state, 0.0) > 0.8


# -- an emulated device ----------------------------------------------------------------------------


@pytest.fixture
def uncalibrated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerator, "_calibrate_once", lambda *_: 1.0)


EVERY_HOST = pytest.mark.parametrize("host", ["sleep", "spin", "gil"])


@EVERY_HOST
def test_a_result_is_waited_for_whatever_the_host_does_meanwhile(host: Host) -> None:
    def step() -> None:
        time_of = RealHost(host)
        StepHandle(time_of, time_of.now() + LONG_S, 0.0).item()

    assert is_mostly("read-back", states_of(step, "emulated"))


@EVERY_HOST
@pytest.mark.usefixtures("uncalibrated")
def test_a_device_that_takes_no_more_blocks_its_host_which_asks_for_nothing(host: Host) -> None:
    device = EmulatedAccelerator(LONG_S, asynchronous=False, host=host)
    assert is_mostly("blocked", states_of(lambda: device.step(None), "emulated"))


@EVERY_HOST
@pytest.mark.usefixtures("uncalibrated")
def test_waiting_for_all_that_was_launched_is_waiting_for_a_result(host: Host) -> None:
    device = EmulatedAccelerator(LONG_S, host=host)

    def step() -> None:
        device.step(None)
        device.synchronize()

    assert is_mostly("read-back", states_of(step, "emulated"))


@pytest.mark.usefixtures("uncalibrated")
def test_the_probes_own_waiting_is_no_read_back_of_the_script() -> None:
    device = EmulatedAccelerator(LONG_S)
    namespace: dict[str, Any] = {"__name__": "stoker.probe.ours"}
    exec("def ours(wait): wait()", namespace)

    def step() -> None:
        device.step(None)
        namespace["ours"](device.synchronize)

    assert is_mostly("blocked", states_of(step, "emulated"))


@pytest.mark.usefixtures("uncalibrated")
def test_a_launch_is_work_of_the_host() -> None:
    device = EmulatedAccelerator(0.0, launch_s=LONG_S)
    assert is_mostly("library", states_of(lambda: device.step(None), "emulated"))


# -- a CUDA device, which is waited for in C -------------------------------------------------------

# On a core and without the interpreter's lock, as a driver that polls.
polling = partial(hashlib.pbkdf2_hmac, "sha256", b"", b"", 400_000)


def test_a_driver_that_polls_waits_for_a_result_too() -> None:
    loss = SimpleNamespace(item=polling)
    assert is_mostly("read-back", states_of(lambda: loss.item(), CUDA))


def test_a_driver_that_sleeps_waits_for_a_result() -> None:
    lock = threading.Lock()
    lock.acquire()
    loss = SimpleNamespace(item=lock.acquire)
    threading.Timer(LONG_S, lock.release).start()
    assert is_mostly("read-back", states_of(lambda: loss.item(), CUDA))


def test_a_read_back_of_a_training_library_counts() -> None:
    name = "/opt/python/site-packages/trainer.py"
    source = "def fit(loss):\n    return loss.item()\n"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    namespace: dict[str, Any] = {"__name__": "trainer"}
    exec(compile(source, name, "exec"), namespace)
    loss = SimpleNamespace(item=polling)
    assert is_mostly("read-back", states_of(lambda: namespace["fit"](loss), CUDA))


def test_other_calls_on_the_line_of_a_read_back_are_what_they_are() -> None:
    states = states_of(lambda: print(float(len(polling())), end=""), CUDA)
    assert "read-back" not in states


def test_without_a_device_nothing_is_read_back() -> None:
    loss = SimpleNamespace(item=polling)
    assert "read-back" not in states_of(lambda: loss.item(), None)


def test_computing_that_makes_numbers_of_texts_is_no_read_back() -> None:
    def compute() -> int:
        until, found = time.perf_counter() + LONG_S, 0
        while time.perf_counter() < until:
            found += int("7") + int("8") + int("9")
        return found

    states = states_of(compute, CUDA)
    assert states.get("read-back", 0.0) < 0.5 * sum(states.values())


def nearest(until: threading.Event) -> None:
    """A loop of the script's own, of few small calls of builtins."""
    row = [0] * 64
    while not until.is_set():
        following: list[int] = []
        for place, value in enumerate(row):
            following.append(min(value, place))


def test_a_loop_of_few_small_calls_is_python_of_the_script() -> None:
    states = states_of(lambda: nearest(_after(LONG_S)), None)
    assert states.get("python", 0.0) > 0.7


def until_over(work: Callable[[], object]) -> Callable[[], None]:
    """The work again and again, for long enough to be sampled."""

    def step() -> None:
        until = time.perf_counter() + LONG_S
        while time.perf_counter() < until:
            work()

    return step


PREVIEW = Image.effect_noise((400, 400), 60)
WEIGHTS = torch.ones(300, 300)


def test_a_picture_that_is_written_is_work_of_the_script() -> None:
    states = states_of(until_over(lambda: PREVIEW.save(io.BytesIO(), "PNG")), "emulated")
    assert is_mostly("python", states)


def test_a_long_call_of_a_library_of_the_host_is_work_of_the_script() -> None:
    values = np.random.default_rng(0).random(300_000)
    assert is_mostly("python", states_of(until_over(lambda: np.sort(values)), "emulated"))


def test_a_checkpoint_is_work_of_the_script() -> None:
    states = states_of(until_over(lambda: torch.save(WEIGHTS, io.BytesIO())), "emulated")
    assert states.get("python", 0.0) > states.get("library", 0.0)


def test_a_long_call_of_torch_may_be_a_launch() -> None:
    states = states_of(until_over(lambda: torch.linalg.svd(WEIGHTS)), "emulated")
    assert is_mostly("library", states)


def _after(seconds: float) -> threading.Event:
    event = threading.Event()
    threading.Timer(seconds, event.set).start()
    return event
