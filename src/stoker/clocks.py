"""The machine's clocks, out of reach of what a script does to Python's.

Tools that hold time still (freezegun, for one) go through all modules and put a clock of their own
wherever one of these functions stands. What measures, or decides when to end, reads these instead.
Standard library only.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

# Objects of their own, which nobody looks for; and bound when the probe starts, before the script.
wall_s: Callable[[], float] = partial(time.perf_counter)
wall_ns: Callable[[], int] = partial(time.perf_counter_ns)
# Of the calling thread, and of the whole process.
cpu_s: Callable[[], float] = partial(time.thread_time)
cpu_ns: Callable[[], int] = partial(time.thread_time_ns)
process_s: Callable[[], float] = partial(time.process_time)
process_ns: Callable[[], int] = partial(time.process_time_ns)
# Of any clock of the kernel's, by its number.
gettime: Callable[[int], float] = partial(time.clock_gettime)
