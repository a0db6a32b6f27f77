"""How many files this process may hold open: each map and each handle of a pack's file is one.

Python's maps keep the descriptor of their file, and a raw pack of some hundred gigabytes has as
many shards as the usual limit, 1,024, allows files.
"""

from __future__ import annotations

import contextlib
import resource
from pathlib import Path


def may_hold(count: int) -> bool:
    """True when so many more files than are open now may be open, or so many twice.

    Raises its limit for that as far as the hard one goes: that is low only for the sake of programs
    that call `select`, and can't take more.
    """
    wanted = count + _open_now(count)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if _is_within(wanted, soft):
        return True
    # Doubled, so that who opens file after file does not raise it each time.
    raised = max(wanted, 2 * soft)
    raised = raised if _is_within(raised, hard) else hard
    with contextlib.suppress(OSError, ValueError):  # forbidden here: it stays as it is
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    return _is_within(wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _open_now(least: int) -> int:
    """Files that this process has open, of whomever; `least` where that can't be seen."""
    try:
        return max(least, sum(1 for _ in Path("/proc/self/fd").iterdir()))
    except OSError:
        return least


def limit() -> int:
    """Files that this process may have open now."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _is_within(count: int, bound: int) -> bool:
    return bound == resource.RLIM_INFINITY or count <= bound
