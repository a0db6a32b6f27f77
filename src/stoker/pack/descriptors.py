"""How many files this process may hold open: each map and each handle of a pack's file is one.

Python's maps keep the descriptor of their file, and a raw pack of some hundred gigabytes has as
many shards as the usual limit, 1,024, allows files.
"""

from __future__ import annotations

import contextlib
import resource


def may_hold(count: int) -> bool:
    """True when so many open files are half of what this process may have, or less.

    Raises its limit for that as far as the hard one goes: that is low only for the sake of programs
    that call `select`, and can't take more.
    """
    wanted = 2 * count
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if _is_within(wanted, soft):
        return True
    # Doubled, so that who opens file after file does not raise it each time.
    raised = max(wanted, 2 * soft)
    raised = raised if _is_within(raised, hard) else hard
    with contextlib.suppress(OSError, ValueError):  # forbidden here: it stays as it is
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    return _is_within(wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def limit() -> int:
    """Files that this process may have open now."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _is_within(count: int, bound: int) -> bool:
    return bound == resource.RLIM_INFINITY or count <= bound
