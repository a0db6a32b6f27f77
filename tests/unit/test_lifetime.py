"""A process ends with who has started it, whether that one is killed before it asks or after."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from stoker import lifetime

PATIENCE_S = 20

# A process between this one and the last, as a launcher is.
_FORKS = """
import os, signal, sys, time
from stoker import lifetime

starter = os.getpid()
is_between = sys.argv[1] == "between"
for _ in range(1 + is_between):
    if os.fork():
        signal.pause()
lifetime.end_with(starter)
print(os.getpid(), starter, flush=True)
signal.pause()
"""


def ended() -> int:
    """The id of a process that has ended and was waited for."""
    with subprocess.Popen(["true"]) as process:
        process.wait(PATIENCE_S)
    return process.pid


@pytest.mark.parametrize("between", ["nobody", "between"])
def test_a_process_is_killed_with_its_parent_and_lives_under_a_launcher(between: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _FORKS, between],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as starter:
        assert starter.stdout is not None
        last, named = map(int, starter.stdout.readline().split())
        try:
            assert named == starter.pid and lifetime.is_alive(last)
            if between == "nobody":
                starter.kill()
                end = time.monotonic() + PATIENCE_S
                while lifetime.is_alive(last) and time.monotonic() < end:
                    time.sleep(0.01)
                assert not lifetime.is_alive(last)
        finally:
            os.killpg(starter.pid, signal.SIGKILL)


def test_a_process_whose_starter_is_gone_already_ends_at_once() -> None:
    code = f"from stoker import lifetime; lifetime.end_with({ended()}); print('lives')"
    told = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, timeout=PATIENCE_S, check=False
    )
    assert (told.returncode, told.stdout) == (-signal.SIGKILL, b"")


def test_a_starter_in_another_namespace_is_not_looked_for() -> None:
    code = f"from stoker import lifetime; lifetime.end_with({ended()}, 'pid:[1]'); print('lives')"
    told = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, timeout=PATIENCE_S, check=False
    )
    assert (told.returncode, told.stdout) == (0, b"lives\n")
    assert lifetime.pid_namespace().startswith("pid:[")


def test_the_main_thread_is_the_kernels() -> None:
    seen = []
    thread = threading.Thread(target=lambda: seen.append(lifetime.is_main_thread()))
    thread.start()
    thread.join()
    assert lifetime.is_main_thread() and seen == [False]


def test_a_process_is_told_from_a_later_one_of_its_number_by_when_it_began() -> None:
    own = lifetime.began(os.getpid())
    with subprocess.Popen(["sleep", "20"]) as process:
        later = lifetime.began(process.pid)
        process.kill()
    assert own is not None and later is not None and own <= later
    assert lifetime.began(process.pid) is None


def test_who_has_ended_and_was_not_waited_for_is_not_alive() -> None:
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not lifetime.is_alive(process.pid)
    process.wait()
    assert lifetime.is_alive(os.getpid()) and not lifetime.is_alive(process.pid)
