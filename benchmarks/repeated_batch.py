"""Runs a script on a few of its own batches, repeated: `repeated_batch.py OUT STEPS SCRIPT …`.

What is left is the step without its loader, the truth for `step.host_s`. OUT gets JSON with the
seconds of each step. Independent of Stoker on purpose; for scripts with one loader.
"""

from __future__ import annotations

import json
import runpy
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader

KEPT = 4
SKIPPED = 3  # the first steps touch new memory


def install(out: Path, steps: int) -> None:
    """Make every DataLoader yield its first batches for ever, and end the script after `steps`."""
    load = DataLoader.__iter__

    def repeat(self: DataLoader[Any]) -> Iterator[Any]:
        loaded = load(self)
        kept = [next(loaded) for _ in range(KEPT)]
        del loaded  # its workers end here
        taken = []
        asked = time.perf_counter()
        for step in range(steps + SKIPPED):
            yield kept[step % KEPT]
            now = time.perf_counter()
            taken.append(now - asked)
            asked = now
        out.write_text(json.dumps(taken[SKIPPED:]))
        raise SystemExit(0)

    DataLoader.__iter__ = repeat


def main() -> None:
    """Run the script as `__main__` with the loader replaced."""
    out, steps, script, *arguments = sys.argv[1:]
    install(Path(out), int(steps))
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).resolve().parent)
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
