"""A Python environment for each tool, so that none of them meets another's requirements or ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.record import ROOT

FOLDER = ROOT / ".venv-peers"
# What every case imports; the versions are those of constraints.txt.
FOR_THE_CASES = ("torch", "numpy", "pillow", "msgspec", "rich", "pint")
# The tools in the versions that were asked, with the extras that their documentation recommends for
# a training script: without psutil gpuprof says nothing of the host. SPDL's spdl_io (decoding) has
# no part in CacheDataLoader.
REQUIREMENTS = {
    "traceml": ("traceml-ai==0.5.0",),
    "spdl": ("spdl_core==0.8.0",),
    "loadtune": ("loadtune==0.3.0",),
    "gpuprof": ("gpuprof[host,torch]==0.7.1",),
}


def python_of(tool: str) -> Path:
    """The interpreter of the tool's environment, made where it is missing or out of date."""
    here = FOLDER / tool
    stamp = here / "requirements"
    wanted = "\n".join((*FOR_THE_CASES, *REQUIREMENTS[tool]))
    if not (stamp.exists() and stamp.read_text() == wanted):
        subprocess.run([sys.executable, "-m", "venv", "--clear", here], check=True)
        subprocess.run(
            [
                *(here / "bin" / "python", "-m", "pip", "install", "-qq"),
                *("--disable-pip-version-check", "-c", ROOT / "constraints.txt"),
                *wanted.split("\n"),
            ],
            check=True,
        )
        stamp.write_text(wanted)
    return here / "bin" / "python"
