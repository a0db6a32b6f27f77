"""The handed cases as workload files of loadtune, made of each case's own names.

loadtune builds the loader itself, so a workload names data set, batch size and step; it has no
place for the start method of workers, which a file can only set for the whole process.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers import adapted


@dataclass(frozen=True)
class Parts:
    """Expressions over the case's own names: its data set, and one training step on `batch`."""

    dataset: str
    step: str
    batch_size: int
    workers: int
    before: str = ""


SPAWNED = "import torch\ntorch.multiprocessing.set_start_method('spawn', force=True)"
PARTS = {
    "c01": Parts("Photos(1600)", "train_step(*batch)", 16, 0),
    "c02": Parts("Scenes(1600, 96)", "train_step(*batch)", 16, 1),
    "c03": Parts(
        "Folder(Disk(tempfile.mkdtemp(dir='.'), read_ms=12), count=400_000)",
        *("train_step(*batch)", 16, 2),
    ),
    "c04": Parts(
        "Album(make_album(tempfile.mkdtemp(dir='.')) * 20_000)", "time.sleep(0.080)", 8, 2
    ),
    "c08b": Parts("Frames()", "update_policy(batch)", 16, 2),
    "c10": Parts("Clips()", "train_step(*batch)", 16, 2, SPAWNED),
    "c11": Parts(
        *("Street(1600)", "detector.backward(detector(batch[0]))", 16, 2),
        "detector = Detector()",
    ),
    "c15": Parts("Crops(8000)", "train_step(*batch)", 8, 4, SPAWNED),
    "c28": Parts(
        *("Chunks()", "accelerator.step(accelerator.to_device(batch)).item()", 16, 2),
        "accelerator = EmulatedAccelerator(0.040, launch_s=0.015)",
    ),
    "c39": Parts(
        *("Graphs()", "accelerator.step(accelerator.to_device(batch))", 1, 2),
        "accelerator = EmulatedAccelerator(lambda step, b: 0.001 * len(b), launch_s=0.020)",
    ),
}

WORKLOAD = """

{before}
import torch
from loadtune.workload import Workload


def one_step(model, optimizer, batch, device):
    {step}
    return torch.zeros(())


def get_workload():
    return Workload(
        name="case",
        make_dataset=lambda: {dataset},
        make_model=lambda: torch.nn.Linear(1, 1),
        make_optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=0.0),
        train_step=one_step,
        default_batch_size={batch_size},
    )
"""


def workload_file(case: str, path: Path) -> str:
    """The case's classes and functions, and the workload made of them."""
    parts = PARTS[case]
    return adapted.without_loops(path) + WORKLOAD.format(
        before=parts.before,
        step=parts.step,
        dataset=parts.dataset,
        batch_size=parts.batch_size,
    )
