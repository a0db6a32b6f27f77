"""What holds for every test: it leaves the process as it found it; long ones run when asked for."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

_TESTS = Path(__file__).parent
_SHM = Path("/dev/shm")
# Pytest writes the name and phase of the current test here.
_PYTEST_OWN = {"PYTEST_CURRENT_TEST"}
# A thread that was told to stop may need a moment to be gone, and so may shared memory of another
# program that is just being made or removed; only leftovers are waited for.
_GRACE_S = 2.0
# Here real processes are measured, killed and interrupted. What other programs of a shared machine
# do to one run they hardly do to three; what is wrong in the code is wrong in all three, and each
# rerun is told.
_REAL_PROCESSES = {
    *("accuracy", "architecture", "attach", "benchmarks", "cli", "examples", "frameworks"),
    *("test_captured.py", "test_dataloader.py", "test_descendants.py", "test_feed.py"),
    *("test_finding_out.py", "test_lifetime.py", "test_passes.py", "test_process_endings.py"),
    *("test_processes.py", "test_session.py", "test_side_loaders.py", "test_stacks.py"),
}
_RERUNS = 2


def pytest_configure() -> None:
    # Below a background job of a shell Ctrl-C is ignored, and below nohup the end of a terminal;
    # what is ignored is inherited by the processes that tests start and send these signals.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run the tests marked `full` too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--full"):
        long = [item for item in items if item.get_closest_marker("full")]
        if long:
            config.hook.pytest_deselected(items=long)
            items[:] = [item for item in items if item not in long]
    for item in items:
        if _REAL_PROCESSES & set(item.path.relative_to(_TESTS).parts):
            item.add_marker(pytest.mark.flaky(reruns=_RERUNS))
    on_gpu = [item for item in items if item.get_closest_marker("gpu")]
    if on_gpu and not _has_cuda():
        for item in on_gpu:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device; none is visible here"))


def _has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()


class _ProcessState(NamedTuple):
    """All that a test could leave behind for the next one."""

    threads: frozenset[threading.Thread]
    environment: dict[str, str]
    meta_path: tuple[object, ...]
    path_hooks: tuple[object, ...]
    shared_memory: frozenset[Path]

    @classmethod
    def now(cls) -> _ProcessState:
        return cls(
            threads=frozenset(threading.enumerate()),
            environment={k: v for k, v in os.environ.items() if k not in _PYTEST_OWN},
            meta_path=tuple(sys.meta_path),
            path_hooks=tuple(sys.path_hooks),
            shared_memory=frozenset(_SHM.iterdir()) if _SHM.is_dir() else frozenset(),
        )

    def leftovers(self, before: _ProcessState) -> list[str]:
        """One line for each thing that differs from `before`."""
        found = [
            f"thread {thread.name!r} is still alive" for thread in self.threads - before.threads
        ]
        for name in sorted(before.environment.keys() | self.environment.keys()):
            was, now = before.environment.get(name), self.environment.get(name)
            if was != now:
                found.append(f"environment variable {name}: was {was!r}, is {now!r}")
        for title, was_hooks, hooks in (
            ("sys.meta_path", before.meta_path, self.meta_path),
            ("sys.path_hooks", before.path_hooks, self.path_hooks),
        ):
            if was_hooks != hooks:
                changed = [repr(hook) for hook in {*was_hooks} ^ {*hooks}]
                found.append(f"{title} changed: {', '.join(changed) or 'the order'}")
        found += [
            f"{entry} was left behind"
            for entry in sorted(self.shared_memory - before.shared_memory)
            if not _held_elsewhere(entry)
        ]
        return found


def _held_elsewhere(entry: Path) -> bool:
    """True when another program of this machine holds the entry, or it is gone by now.

    /dev/shm belongs to the whole machine: what another run of ours or a browser has there is
    open in, or mapped by, some process that is not this one.
    """
    for process in Path("/proc").glob("[0-9]*"):
        if process.name == str(os.getpid()):
            continue
        try:
            if str(entry) in (process / "maps").read_text():
                return True
            if any(fd.readlink() == entry for fd in (process / "fd").iterdir()):
                return True
        except (FileNotFoundError, PermissionError, ProcessLookupError):
            continue
    return not entry.exists()


@pytest.fixture(autouse=True)
def process_as_before() -> Iterator[None]:
    """Fails the test that leaves threads, environment, import hooks or shared memory changed."""
    before = _ProcessState.now()
    yield
    for thread in frozenset(threading.enumerate()) - before.threads:
        thread.join(_GRACE_S)
    end = time.monotonic() + _GRACE_S
    while (leftovers := _ProcessState.now().leftovers(before)) and time.monotonic() < end:
        time.sleep(0.1)
    if leftovers:
        pytest.fail("the test left behind:\n  " + "\n  ".join(leftovers), pytrace=False)
