"""`python -m stoker.pack.worker FD PID`: does tasks that come over a socket until it closes."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from stoker import lifetime
from stoker.errors import InputError, place_of
from stoker.pack.work import Failed, Setup, Work

_T = TypeVar("_T")


def serve(connection: Connection) -> None:
    """Take the setup and then tasks; answer each, in order."""
    sys.path[:], setup = connection.recv()
    made = _attempted(Work, Setup(*setup))
    try:
        while True:
            task = connection.recv()
            connection.send(made if isinstance(made, Failed) else _attempted(made.do, task))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # whoever asked has gone or has enough
    finally:
        if isinstance(made, Work):
            made.close()


def _attempted(do: Callable[..., _T], *arguments: Any) -> _T | Failed:
    """What it gives, or what went wrong: the one who asked tells it."""
    try:
        return do(*arguments)
    except InputError as error:
        return Failed(error.happened, error.looked_at, error.run_next, is_input=True)
    except OSError as error:
        return Failed(str(error), errno=error.errno or 0)
    except Exception as error:  # noqa: BLE001 - a traceback of this process would tell nobody
        return Failed(
            f"a worker process failed: {type(error).__name__}: {error}",
            looked_at=place_of(error),
            run_next="run again with --resume; if it fails again it is a fault of Stoker",
        )


def belong_to(packer: int) -> None:
    """A killed packer takes its workers along; Ctrl-C is the packer's to answer."""
    lifetime.end_with(packer)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def main() -> None:
    """Serve the socket whose descriptor is named, for the process that is."""
    descriptor, packer = map(int, sys.argv[1:])
    belong_to(packer)
    with Connection(descriptor) as connection:
        serve(connection)


if __name__ == "__main__":
    main()
