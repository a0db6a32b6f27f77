"""Stages timed in real worker processes, over real JPEG files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

from stoker.diagnose.diagnosis import diagnose
from stoker.probe.process import process_times
from stoker.records.diagnosis import FixCode, VerdictCode
from stoker.records.profile import Unit
from stoker.theory.calibrate import scenario_from
from stoker.theory.pipeline import forecast
from stoker.theory.question import AboutMeasured
from tests.attach.examined import watch

# A script of its own, so that workers of every kind can import it. It takes the number of workers,
# the start method and where to write; the parent reads each worker's CPU clock from outside.
SCRIPT = """\
import json, os, sys, time
from pathlib import Path

import numpy as np
import torch
from PIL.Image import open as open_image  # bound early
from torch.utils.data import DataLoader, Dataset, Subset, get_worker_info

from stoker.probe import stages

HERE = Path(__file__).parent


class Flip:
    def __call__(self, image):
        return image.transpose(0) if torch.rand(()) < 0.5 else image


class Compose:
    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, image):
        for transform in self.transforms:
            image = transform(image)
        return image


def to_tensor(image):
    return torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1).float() / 255


class Photos(Dataset):
    def __init__(self):
        self.paths = sorted(HERE.glob("*.jpg"))
        self.transform = Compose([Flip(), to_tensor])

    def __len__(self):
        return 320

    def load(self, index):
        return open_image(self.paths[index % len(self.paths)]).convert("RGB").resize((160, 160))

    def __getitem__(self, index):
        return self.transform(self.load(index)), index


class Start:
    def __call__(self, worker_id):
        file = os.open(HERE / f"{os.getpid()}.jsonl", os.O_CREAT | os.O_APPEND | os.O_WRONLY)

        def sink(record):
            os.write(file, (json.dumps(record) + "\\n").encode())

        stages.install(get_worker_info().dataset, sink, where="worker")


if __name__ == "__main__":
    method = sys.argv[1]
    dataset = Subset(Photos(), range(320))
    loader = DataLoader(
        dataset,
        batch_size=16,
        num_workers=2,
        worker_init_fn=Start(),
        multiprocessing_context=method,
        persistent_workers=True,
    )
    batches = iter(loader)
    for _ in range(20):
        next(batches)
    print(json.dumps([worker.pid for worker in batches._workers]), flush=True)
    sys.stdin.readline()
"""


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from skimage import data

    folder = tmp_path_factory.mktemp("photos")
    photo = Image.fromarray(data.astronaut())
    for number in range(8):
        size = 480 + 40 * number
        photo.resize((size, size)).save(folder / f"{number}.jpg", quality=90)
    (folder / "train.py").write_text(SCRIPT)
    return folder


def run(folder: Path, method: str) -> tuple[dict[int, list[dict[str, Any]]], dict[int, float]]:
    """Records of each worker, and the CPU seconds that the kernel counted for it."""
    for old in folder.glob("*.jsonl"):
        old.unlink()
    with subprocess.Popen(
        [sys.executable, "train.py", method],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as script:
        assert script.stdout is not None
        assert script.stdin is not None
        pids = json.loads(script.stdout.readline())
        cpu = {pid: times.cpu_s for pid in pids if (times := process_times(pid)) is not None}
        script.stdin.close()
        assert script.wait(timeout=30) == 0
    records = {
        pid: [json.loads(line) for line in (folder / f"{pid}.jsonl").read_text().splitlines()]
        for pid in pids
    }
    return records, cpu


EXPECTED = {
    *("open (file)", "read (file)", "open (Pillow)", "decode (Pillow)", "convert (Pillow)"),
    *("resize (Pillow)", "flip (Pillow)", "Flip", "to_tensor", "Compose", "Photos.load"),
    *("Photos.__getitem__", "Subset.__getitems__", "collate", "fetch"),
}


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_every_kind_tell_the_cost_of_every_stage(photos: Path, method: str) -> None:
    records, _ = run(photos, method)
    assert len(records) == 2
    for batches in records.values():
        assert {record["where"] for record in batches} == {"worker"}
        assert {stage for record in batches for stage in record["stages"]} >= EXPECTED
        assert all(record["stages"]["decode (Pillow)"][0] >= 16 for record in batches)
        first = batches[0]["records"][0]
        assert first[4].endswith(".jpg")
        assert first[5] == os.stat(first[4]).st_size  # noqa: PTH116


def test_the_stages_of_a_worker_sum_to_its_time_within_5_percent(photos: Path) -> None:
    records, kernel_cpu_s = run(photos, "fork")
    for pid, batches in records.items():
        stage_wall = sum(wall for r in batches for _, wall, _ in r["stages"].values())
        stage_cpu = sum(cpu for r in batches for _, _, cpu in r["stages"].values())
        # From the first fetch to the last, as the worker's own clock saw it.
        present = sum(record["wall_ns"] for record in batches)
        assert stage_wall == pytest.approx(present, rel=0.05)
        # The kernel counted the whole process: start, fetches, and pickling in another thread.
        inside = sum(record["process_cpu_ns"] for record in batches)
        aside = sum(cpu for r in batches for _, _, cpu in r.get("aside", {}).values())
        assert stage_cpu + aside == pytest.approx(inside, rel=0.05)
        assert inside / 1e9 <= kernel_cpu_s[pid] * 1.02


def test_waiting_for_a_core_is_counted_and_does_not_exceed_the_wait(photos: Path) -> None:
    records, _ = run(photos, "fork")
    for batches in records.values():
        for record in batches:
            assert record["runqueue_ns"] is not None
            assert 0 <= record["runqueue_ns"] <= record["wall_ns"]


@pytest.mark.full
def test_a_diagnosis_tells_which_stages_a_pack_would_take_away(in_folder: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (400, 600, 3), np.uint8)
    for number in range(12):
        path = in_folder / "photos" / "abc"[number % 3] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)

    arguments = (in_folder / "photos", "--workers", 1, "--epochs", 10_000, "--slow-s", 0.002)
    profile = watch("augmented.py", *arguments, budget_s=5.0)

    repeats = {stage.stage: stage.deterministic for stage in profile.stages}
    assert repeats["decode (Pillow)"] is repeats["shrunk"] is True
    assert repeats["flipped"] is repeats["floats"] is False
    assert {stage.where for stage in profile.stages if stage.stage == "hand-off"} == {"beside"}
    assert profile.slowest[0].stage in repeats
    measured = scenario_from(profile)
    packed = AboutMeasured(profile=profile, base=measured).changed("pack").scenario()
    assert forecast(packed).produce_s.median < forecast(measured).produce_s.median


@pytest.mark.full
@pytest.mark.parametrize(("first", "is_waste"), [(60, True), (0, False)])
def test_clips_that_are_read_from_the_start_of_their_video_are_told_with_the_frames_in_vain(
    in_folder: Path, first: int, is_waste: bool
) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (96, 128, 3), np.uint8)
    for number in range(3):
        coder = cv2.VideoWriter_fourcc(*"MJPG")
        writer = cv2.VideoWriter(str(in_folder / f"{number}.avi"), coder, 25.0, (128, 96))
        for shift in range(70):
            writer.write(np.roll(noise, shift, axis=1))
        writer.release()

    profile = watch("clips.py", in_folder, "--first", first, budget_s=8.0)

    assert profile.stages, profile.environment.notes
    (frames,) = [one for one in profile.decoded if one.unit is Unit.FRAME]
    assert (frames.decoded, frames.used) == (first + 4, 4)
    diagnosis = diagnose(profile)
    assert (diagnosis.verdict.code is VerdictCode.READ_AMPLIFICATION) == is_waste
    if is_waste:
        assert f"{first + 4} video frames are decoded and 4 used" in diagnosis.verdict.sentence
        assert diagnosis.fixes[0].code in (FixCode.ACCESS_PATTERN, FixCode.RECHUNK)
