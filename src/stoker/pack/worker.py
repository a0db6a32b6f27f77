"""`python -m stoker.pack.worker FD PID`: does tasks that come over a socket until it closes."""

from __future__ import annotations

import signal
import sys
from multiprocessing.connection import Connection
from typing import Any

from stoker import lifetime
from stoker.errors import InputError
from stoker.pack.work import Failed, Setup, Work


def serve(connection: Connection) -> None:
    """Take the setup and then tasks; answer each, in order."""
    sys.path[:], setup = connection.recv()
    work = Work(Setup(*setup))
    try:
        while True:
            connection.send(_answer(work, connection.recv()))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # whoever asked has gone or has enough
    finally:
        work.close()


def _answer(work: Work, task: Any) -> Any:
    try:
        return work.do(task)
    except InputError as error:
        return Failed(error.happened, error.looked_at, error.run_next)
    except OSError as error:
        return Failed(str(error), errno=error.errno or 0)


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
