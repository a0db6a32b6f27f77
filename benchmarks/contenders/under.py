"""One contender under an emulated accelerator, in whatever environment it is started in: its AU.

python -m benchmarks.contenders.under MODULE NAME FOLDER SECONDS_A_SAMPLE SECONDS
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from benchmarks.contenders import one, stepping
from stoker.emulate import EmulatedAccelerator


def main() -> None:
    """Measure."""
    folder = Path(sys.argv[3])
    contender = one.found(sys.argv[1], sys.argv[2], folder)
    step_s = float(sys.argv[4]) * contender.batch
    steps = max(stepping.LEAST_STEPS, round(float(sys.argv[5]) / step_s))
    accelerator = EmulatedAccelerator(step_s, link_bytes_per_s=stepping.LINK_BYTES_PER_S)
    batches = stepping.endless(contender.make(folder))
    json.dump({"au": step_s / stepping.step_s(batches, accelerator, steps)}, sys.stdout)
    sys.stdout.flush()
    # Workers and threads of any loader end with the process.
    os._exit(0)


if __name__ == "__main__":
    main()
