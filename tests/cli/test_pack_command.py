"""`stoker pack`, `info`, `verify` and `export` as a user has them; killed, and run again."""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import numpy as np
import pytest
from PIL import Image

from stoker.cli import pack
from stoker.cli.pack_plan import command_of
from stoker.pack import open_pack
from stoker.pack.plan import PackCandidate
from stoker.records.codec import to_json
from stoker.stats import Spread
from tests.cli.test_predict import answered, stoker
from tests.golden.diagnoses import cpu_saturated
from tests.golden.starving import serial_loader
from tests.unit.pack.conftest import contents, photo, photos

__all__ = ["photos"]

SMALL = ("--size", "24", "--shard-size", "10 kB", "--quiet")
# A worker that died must be told within this time, the start of Python aside.
DEATH_S = 5.0


def pack_of(source: Path | str, folder: Path, *options: str) -> str:
    return answered("pack", str(source), str(folder), *SMALL, "--workers", "1", *options)


def test_a_folder_of_photos_becomes_a_pack_and_info_tells_what_it_holds(
    photos: Path, tmp_path: Path
) -> None:
    told = pack_of(photos, tmp_path / "p")
    assert "21 samples, 21 packed in" in told
    assert "16 were cut at the sides" in told
    told = answered("info", str(tmp_path / "p"), "--sheet", str(tmp_path / "sheet.png"))
    for expected in ("21 samples in", "uint8 24 × 24 × 3", "tier raw, size 24", "Classes: 3"):
        assert expected in told
    assert "Stored in the order of the classes: 90% of the neighbours" in told
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.size == (8 * 128, 3 * 128)
    found = json.loads(answered("info", str(tmp_path / "p"), "--json", "-"))
    pixels = np.stack([open_pack(tmp_path / "p").value("image", n) for n in (0, 16)])
    assert found["mean"] == pytest.approx(pixels.mean((0, 1, 2)).tolist())
    assert found["deviation"] == pytest.approx(pixels.std((0, 1, 2)).tolist())


def test_a_pack_of_jpegs_has_statistics_too(photos: Path, tmp_path: Path) -> None:
    pack_of(photos, tmp_path / "raw")
    pack_of(photos, tmp_path / "jpeg", "--tier", "crop-jpeg")
    raw, jpeg = (
        json.loads(answered("info", str(tmp_path / name), "--json", "-"))
        for name in ("raw", "jpeg")
    )
    assert jpeg["mean"] == raw["mean"]


def test_one_is_told_in_the_singular(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    photo(0).save(tmp_path / "one" / "a.png")
    assert "p: 1 sample, 1 packed" in pack_of(tmp_path / "one", tmp_path / "p")
    assert "1 sample in 1 shard, " in answered("info", str(tmp_path / "p"))
    told = answered("export", str(tmp_path / "p"), str(tmp_path / "tars"), "--to", "webdataset")
    assert "1 sample in 1 file, " in told


def test_a_shuffled_pack_has_no_class_order_warning(photos: Path, tmp_path: Path) -> None:
    pack_of(photos, tmp_path / "p", "--order", "shuffled:1")
    assert "order of the classes" not in answered("info", str(tmp_path / "p"))


def test_bad_samples_give_exit_code_1_unless_they_are_accepted(
    photos: Path, tmp_path: Path
) -> None:
    (photos / "b" / "04.jpg").write_bytes(b"")
    done = stoker("pack", str(photos), str(tmp_path / "1"), *SMALL, "--workers", "1")
    assert done.returncode == 1
    assert "b/04.jpg: ValueError: the file is empty" in done.stdout
    manifest = json.loads((tmp_path / "1" / "manifest.json").read_text())
    assert manifest["quarantine"] == [
        {"index": 8, "source": "b/04.jpg", "reason": "ValueError: the file is empty"}
    ]
    # As long as they are missing, whether they were so before or not.
    done = stoker("pack", str(photos), str(tmp_path / "1"), *SMALL, "--resume")
    assert done.returncode == 1
    assert "b/04.jpg: ValueError: the file is empty" in done.stdout
    pack_of(photos, tmp_path / "1", "--resume", "--max-bad", "1")
    pack_of(photos, tmp_path / "2", "--max-bad", "1")
    done = stoker("pack", str(photos), str(tmp_path / "3"), *SMALL, "--max-bad", "0")
    assert (done.returncode, done.stdout) == (1, "")
    assert "samples that could not be read: 1, allowed: 0" in done.stderr


def test_the_summary_is_json_when_asked_for(photos: Path, tmp_path: Path) -> None:
    found = json.loads(pack_of(photos, tmp_path / "p", "--json", "-"))
    assert (found["samples"], found["packed"], found["is_whole"]) == (21, 21, True)
    assert found["bytes"] == sum(path.stat().st_size for path in (tmp_path / "p").glob("shard-*"))


def test_resume_append_repack_parts_and_finalize(photos: Path, tmp_path: Path) -> None:
    folder = tmp_path / "p"
    pack_of(photos, folder, "--resume")
    assert "up to date and has all its files" in pack_of(photos, folder, "--resume")
    photo(40).save(photos / "c" / "zz.jpg")
    assert "22 samples, 1 packed" in pack_of(photos, folder, "--append")
    photo(41).save(photos / "a" / "00.png")
    done = stoker("pack", str(photos), str(folder), *SMALL, "--resume")
    assert "out of date" in done.stderr
    for part in ("0/2", "1/2"):
        assert "is finished" in pack_of(photos, tmp_path / "q", "--shard", part)
    assert "22 samples" in pack_of(photos, tmp_path / "q", "--finalize")
    photo(42).save(photos / "a" / "00.png")
    assert "5 packed" in pack_of(photos, tmp_path / "q", "--repack")


def test_a_photo_more_is_repacked_alone(photos: Path, tmp_path: Path) -> None:
    options = ("--size", "24", "--quiet", "--workers", "1")
    answered("pack", str(photos), str(tmp_path / "p"), *options)
    photo(40).save(photos / "c" / "zz.jpg")
    told = answered("pack", str(photos), str(tmp_path / "p"), *options, "--repack")
    assert "22 samples, 1 packed" in told


def test_a_flipped_byte_is_found_by_verify(photos: Path, tmp_path: Path) -> None:
    pack_of(photos, tmp_path / "p")
    assert "as it was written" in answered("verify", str(tmp_path / "p"), "--quiet")
    path = tmp_path / "p" / "shard-00001.image.npy"
    data = bytearray(path.read_bytes())
    data[4100] ^= 1
    path.write_bytes(data)
    done = stoker("verify", str(tmp_path / "p"), "--quiet")
    assert done.returncode == 1
    assert f"shard 1, {path.name}, block 0, bytes 0 to" in done.stdout
    found = json.loads(stoker("verify", str(tmp_path / "p"), "--quiet", "--json", "-").stdout)
    assert found["damage"][0]["shard"] == 1
    assert stoker("verify", str(tmp_path / "p"), "--quiet", "--sample", "1e-9").returncode == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--size", "24", "--tier", "keep"), "the tier keep stores the files' own bytes"),
        (("--tier", "raw"), "pictures differ in size: 24×24, 30×40"),
        (("--size", "24", "--quality", "9"), "--quality 9 with the tier raw"),
        (("--size", "0"), "'0' is not a count"),
        (("--shard", "2/2"), "'2/2' is not I/N"),
        (("--order", "random"), "'random' is not source or shuffled:SEED"),
        (("--finalize",), "has no parts to join"),
        (("--append",), "is no pack"),
        (("--size", "24", "--shard-size", "1B"), "a shard of 1 B holds not one sample"),
        (("--shard", "0/2", "--finalize"), "--shard packs a part"),
    ],
)
def test_settings_that_cannot_be_are_refused_in_three_parts(
    photos: Path, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    photo(0, (24, 24)).save(photos / "a" / "00.png")
    photo(0, (40, 30)).save(photos / "a" / "03.jpg")
    done = stoker("pack", str(photos), str(tmp_path / "p"), *options)
    assert done.returncode in (1, 2)
    assert message in done.stderr
    assert "looked at:" in done.stderr
    assert "next:" in done.stderr


def test_a_file_system_that_takes_no_more_is_told_and_what_is_finished_stays(
    photos: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "p"
    pack = [sys.executable, "-m", "stoker", "pack", str(photos), str(folder), "--quiet"]
    options = ["--tier", "keep", "--shard-size", "40 kB"]
    photo(0, (1600, 1200)).save(photos / "c" / "zz.png")
    # No file may have more than 200 × 1,024 bytes: enough for all shards but the last.
    limited = ["bash", "-c", 'ulimit -f 200; exec "$@"', "bash", *pack, *options, "--workers", "1"]
    done = subprocess.run(limited, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert f"{folder} cannot be written: [Errno 27] File too large" in done.stderr
    assert "shards are finished and kept" in done.stderr
    assert "22 samples" in answered(*pack[3:], *options, "--resume")


def _start(photos: Path, folder: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "stoker", "pack", str(photos), str(folder), *SMALL, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )


def _workers(pid: int) -> list[int]:
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _wait_for(is_so: object, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not is_so():  # type: ignore[operator]
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)


@pytest.fixture
def many_photos(tmp_path: Path) -> Path:
    """600 photos, large enough that packing them takes a while."""
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(12):
        photo(number, (640, 480)).save(folder / f"{number:03}.jpg")
    for number in range(12, 600):
        os.link(folder / f"{number % 12:03}.jpg", folder / f"{number:03}.jpg")
    return folder


def test_a_dead_worker_is_told_at_once_and_nothing_is_lost(
    many_photos: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "p"
    with _start(many_photos, folder, "--workers", "2") as running:
        _wait_for(lambda: any(folder.glob("shard-00001.*.npy")))
        os.kill(_workers(running.pid)[0], signal.SIGKILL)
        killed = time.monotonic()
        _, told = running.communicate(timeout=30)
        assert time.monotonic() - killed < DEATH_S
    assert running.returncode == 1
    assert "a worker process died (signal 9)" in told
    assert "--resume" in told
    assert "samples" in pack_of(many_photos, folder, "--resume")


def test_ctrl_c_leaves_no_process_and_it_goes_on(many_photos: Path, tmp_path: Path) -> None:
    folder = tmp_path / "p"
    with _start(many_photos, folder, "--workers", "2") as running:
        _wait_for(lambda: any(folder.glob("shard-00001.*.npy")))
        workers = _workers(running.pid)
        os.killpg(running.pid, signal.SIGINT)
        running.communicate(timeout=30)
    assert running.returncode == 130
    assert len(workers) == 3
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
    assert "samples" in pack_of(many_photos, folder, "--resume")


def _killed_and_resumed(
    many_photos: Path, folder: Path, expected: dict[str, bytes], *, kills: int
) -> None:
    """Kill -9 at random points, then let it finish."""
    rng = random.Random(folder.name)
    for _ in range(kills):
        with _start(many_photos, folder, "--workers", "2", "--resume") as running:
            try:
                running.communicate(timeout=rng.uniform(0.2, 1.2))
            except subprocess.TimeoutExpired:
                running.kill()
                running.communicate()
    answered("pack", str(many_photos), str(folder), *SMALL, "--workers", "2", "--resume")
    assert contents(folder) == expected


def test_killed_at_a_random_point_it_ends_with_the_same_bytes(
    many_photos: Path, tmp_path: Path
) -> None:
    pack_of(many_photos, tmp_path / "at-once")
    _killed_and_resumed(many_photos, tmp_path / "0", contents(tmp_path / "at-once"), kills=1)


@pytest.mark.full
def test_killed_at_50_random_points_it_ends_with_the_same_bytes(
    many_photos: Path, tmp_path: Path
) -> None:
    pack_of(many_photos, tmp_path / "at-once")
    expected = contents(tmp_path / "at-once")
    for number in range(1, 18):
        _killed_and_resumed(many_photos, tmp_path / f"{number}", expected, kills=3)


def test_a_plan_packs_nothing_and_says_what_to_do(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker.pack.speed.DISK_BYTES", 4 * 2**20)
    monkeypatch.setattr("stoker.pack.speed._STRETCH_S", 0.01)
    diagnosis = tmp_path / "diagnosis.json"
    diagnosis.write_text(to_json(cpu_saturated()), encoding="utf-8")
    before = sorted(path.name for path in tmp_path.iterdir())
    given = ("pack", str(photos), str(tmp_path / "p"), "--plan", "--size", "64", "--workers", "1")
    told = answered(*given, "--diagnosis", str(diagnosis))
    for expected in ("21 samples", "raw 30", "crop-jpeg 30", "keep", "samples/s", ", step "):
        assert expected in told
    assert "--size 64 would only enlarge pictures" in told
    crowded = msgspec.structs.replace(cpu_saturated().profile.host, foreign_cores=1.0)
    profile = msgspec.structs.replace(cpu_saturated().profile, host=crowded)
    busy = msgspec.structs.replace(cpu_saturated(), profile=profile)
    diagnosis.write_text(to_json(busy), encoding="utf-8")
    told = answered(*given, "--diagnosis", str(diagnosis))
    assert ", step " not in told
    assert "no step is forecast, as the diagnosis promises no gain: other processes kept" in told
    diagnosis.write_text(to_json(serial_loader()), encoding="utf-8")
    told = answered(*given, "--diagnosis", str(diagnosis))
    assert "first: let loading run beside the step" in told
    assert "device-bound" not in told
    found = json.loads(answered(*given, "--json", "-"))
    assert found["schema"] == "stoker.pack-plan/1"
    assert found["needed_samples_per_s"] is None
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_plan_needs_no_target_and_ends_with_the_command(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker.pack.speed.DISK_BYTES", 4 * 2**20)
    monkeypatch.setattr("stoker.pack.speed._STRETCH_S", 0.01)
    monkeypatch.setattr("stoker.pack.plan._LEAST_GAIN", 0.0)
    given = ("pack", str(photos), "--plan", "--size", "64", "--fit", "pad", "--workers", "1")
    told = answered(*given, cwd=tmp_path).splitlines()[-1]
    start, _, rest = told.strip().partition(" --tier ")
    # Within the longer side of the pictures: --size 64 would only have enlarged them.
    assert start in (f"stoker pack {photos} packed/ --size 40", f"stoker pack {photos} packed/")
    assert rest in (
        *("raw --fit pad --workers 1", "crop-jpeg --fit pad --workers 1"),
        *("jpeg --fit pad --workers 1", "keep --workers 1"),
    )
    answered(*told.split()[1:], "--quiet", cwd=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["packed", "photos"]


def test_a_missing_target_is_told(photos: Path) -> None:
    done = stoker("pack", str(photos))
    assert done.returncode == 2
    assert "DST is missing" in done.stderr
    assert f"next: stoker pack {photos} packed/; with --plan" in done.stderr


def test_a_dataset_is_packed_and_a_dataset_over_the_pack_is_printed(
    photos: Path, tmp_path: Path
) -> None:
    own = tmp_path / "flipped_photos.py"
    own.write_text(
        "import random\nfrom pathlib import Path\nfrom PIL import Image\n"
        "def small(image): return image.resize((20, 20))\n"
        "def flip(image): return image.transpose(0) if random.random() < 0.5 else image\n"
        "class Compose:\n"
        "    transforms = [small, flip]\n"
        "    def __call__(self, image):\n"
        "        for transform in self.transforms: image = transform(image)\n"
        "        return image\n"
        "class Photos:\n"
        "    transform = Compose()\n"
        f"    paths = sorted(Path({str(photos)!r}).rglob('*.*'))\n"
        "    def __len__(self): return len(self.paths)\n"
        "    def __getitem__(self, n):\n"
        "        return self.transform(Image.open(self.paths[n]).convert('RGB')), n % 3\n"
    )
    told = answered("pack", f"{own}:Photos", str(tmp_path / "p"), "--workers", "1", "--quiet")
    del sys.modules["flipped_photos"]
    assert "packed once: small | in every epoch: flip" in told
    assert "class Packed:" in told
    assert open_pack(tmp_path / "p").value("image", 0).shape == (20, 20, 3)


PRINTING = """
from PIL import Image

print("loading annotations...")

class Own:
    def __init__(self):
        print("index created!")
    def __len__(self):
        return 20
    def __getitem__(self, index):
        print("sample", index)
        return Image.new("RGB", (24, 24), (index, 0, 0)), index
"""


@pytest.mark.parametrize("what", ["pack", "verify", pytest.param("plan", marks=pytest.mark.full)])
def test_what_a_dataset_prints_is_no_part_of_the_json(tmp_path: Path, what: str) -> None:
    (tmp_path / "own.py").write_text(PRINTING)
    made = ("pack", "own.py:Own", "p", "--workers", "1", "--quiet")
    again = ("verify", "p", "--against", "own.py:Own")
    commands = {"pack": [made], "plan": [(*made, "--plan")], "verify": [made, again]}[what]
    for command in commands:
        done = subprocess.run(
            [sys.executable, "-m", "stoker", *command, "--json", "-"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
    assert isinstance(json.loads(done.stdout), dict)
    assert {"loading annotations...", "index created!", "sample 7"} <= set(done.stderr.splitlines())


def test_the_command_of_a_plan_has_all_that_was_asked_for() -> None:
    def told(chosen: str, *options: str) -> str:
        parser = argparse.ArgumentParser()
        pack.add_arguments(parser)
        size = None if chosen == "keep" else 64
        candidate = PackCandidate(
            tier=chosen,
            size=size,
            bytes=1.0,
            pack_s=Spread.exact(1.0),
            read_samples_per_s=Spread.exact(1.0),
            storage_samples_per_s=1.0,
            is_cached=True,
            limit="processor",
        )
        return command_of(parser.parse_args(["s", "--plan", *options]), candidate)

    options = ("--fit", "pad", "--resampler", "box", "--exif", "apply", "--quality", "70")
    options += ("--order", "shuffled:3", "--shard-size", "1 MB", "--max-bad", "0", "--hash")
    start, stored = "stoker pack s packed/", "--order shuffled:3 --shard-size 1000000 --max-bad 0"
    resized = "--fit pad --resampler box --exif apply"
    assert told("raw", *options) == f"{start} --size 64 --tier raw {resized} {stored} --hash"
    assert told("jpeg", *options) == (
        f"{start} --size 64 --tier jpeg {resized} --quality 70 {stored} --hash"
    )
    assert told("keep", *options) == f"{start} --tier keep {stored} --hash"
    assert told("raw") == f"{start} --size 64 --tier raw"


def test_a_pack_is_compared_with_the_users_own_dataset(photos: Path, tmp_path: Path) -> None:
    own = tmp_path / "own_photos.py"
    own.write_text(
        "from pathlib import Path\nfrom PIL import Image\n"
        f"paths = sorted(Path({str(photos)!r}).rglob('*.*'))\n"
        "own = [(Image.open(p).convert('RGB').resize((24, 24), 2), 0) for p in paths]\n"
    )
    pack_of(photos, tmp_path / "p", "--fit", "exact")
    done = stoker("verify", str(tmp_path / "p"), "--against", f"{own}:own")
    del sys.modules["own_photos"]
    assert done.returncode == 1
    assert "pixels: mean difference 0.000 grey levels" in done.stdout
    assert "labels: 7 of 21 equal" in done.stdout
    again = stoker("verify", str(tmp_path / "p"), "--against", f"{own}:own", "--sample", "10%")
    del sys.modules["own_photos"]
    assert "(2 of 21 samples compared, by their index)" in again.stdout


def test_a_dataset_is_called_up_to_date_as_far_as_was_looked(tmp_path: Path) -> None:
    own = tmp_path / "own_numbers.py"
    own.write_text("own = [(b'%d' % number, number) for number in range(40)]\n")
    given = ("pack", f"{own}:own", str(tmp_path / "p"), "--workers", "1", "--quiet")
    answered(*given)
    full = "is up to date and has all its files, in full size (stoker verify reads every byte)"
    for again, what in (("--resume", full), ("--repack", "is whole and up to date")):
        told = answered(*given, again)
        assert f"p {what}: 40 samples, 16 of them compared\n" in told
    own.write_text(own.read_text().replace("%d", "<%d>"))
    del sys.modules["own_numbers"]
    done = stoker(*given, "--resume")
    assert "p is out of date: sample" in done.stderr
    assert "next: run again with --repack" in done.stderr
    del sys.modules["own_numbers"]
