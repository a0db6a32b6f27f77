"""`python -m stoker.pack.worker FD`: does tasks that come over a socket until it closes."""

from __future__ import annotations

import ctypes
import signal
import sys
from multiprocessing.connection import Connection
from typing import Any

from stoker.errors import InputError
from stoker.pack.work import Failed, Setup, Work

_PR_SET_PDEATHSIG = 1  # prctl(2): a signal when the parent is gone


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


def die_with_parent() -> None:
    """A killed packer takes its workers along; Ctrl-C is the packer's to answer."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def main() -> None:
    """Serve the socket whose descriptor is named."""
    die_with_parent()
    with Connection(int(sys.argv[1])) as connection:
        serve(connection)


if __name__ == "__main__":
    main()
