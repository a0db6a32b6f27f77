"""What installed libraries decode for a sample is counted as they decode it, and put back after."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import PIL.Image
import PIL.ImageFile
import pyarrow
import pytest
import simplejpeg
import torch
from pyarrow import parquet
from torch.utils.data import DataLoader, Dataset

from stoker.probe import stages
from stoker.probe.decoded_reading import read_decoded
from stoker.probe.sample_reading import cost_trend, slowest_samples
from stoker.records.profile import Decoded, Unit

WIDTH, HEIGHT = 640, 480
PIXELS = WIDTH * HEIGHT
FRAMES = 40
SAMPLES = 8


class Read(Dataset[Any]):
    """Samples that a function makes of their index."""

    def __init__(self, one: Callable[[int], Any]) -> None:
        self.one = one

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> Any:
        return self.one(index)


def watched(one: Callable[[int], Any], **settings: Any) -> list[dict[str, Any]]:
    """The records of an epoch in batches of four; the first batch counts as any other."""
    records: list[dict[str, Any]] = []
    with stages.install(read := Read(one), records.append, where="main"):
        for _ in DataLoader(read, **({"batch_size": 4} | settings)):
            pass
    return [{**record, "gap_ns": 0} for record in records]


def decoded(one: Callable[[int], Any], **settings: Any) -> Decoded:
    (found,) = read_decoded(watched(one, **settings))
    return found


@pytest.fixture(scope="module")
def photo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("photo") / "photo.jpg"
    soft = np.random.default_rng(0).integers(0, 255, (30, 40, 3), np.uint8)
    PIL.Image.fromarray(soft).resize((WIDTH, HEIGHT)).save(path, quality=90)
    return path


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("video") / "video.avi"
    coder = cv2.VideoWriter_fourcc(*"MJPG")
    writer = cv2.VideoWriter(str(path), coder, 25.0, (64, 48))
    assert writer.isOpened()
    for number in range(FRAMES):
        writer.write(np.full((48, 64, 3), 5 * number, np.uint8))
    writer.release()
    return path


def small(image: PIL.Image.Image) -> torch.Tensor:
    return torch.from_numpy(np.array(image.convert("RGB").resize((64, 64)).crop((0, 0, 32, 32))))


def through_pillow(path: Path) -> torch.Tensor:
    return small(PIL.Image.open(path))


def in_draft(path: Path) -> torch.Tensor:
    image = PIL.Image.open(path)
    image.draft("RGB", (64, 64))
    return small(image)


def through_opencv(path: Path) -> torch.Tensor:
    return small(PIL.Image.fromarray(cv2.imread(str(path))))


def reduced(path: Path) -> torch.Tensor:
    return small(PIL.Image.fromarray(cv2.imread(str(path), cv2.IMREAD_REDUCED_COLOR_4)))


def from_memory(path: Path) -> torch.Tensor:
    data = np.frombuffer(path.read_bytes(), np.uint8)
    return small(PIL.Image.fromarray(cv2.imdecode(data, cv2.IMREAD_COLOR)))


def through_simplejpeg(path: Path) -> torch.Tensor:
    return small(PIL.Image.fromarray(simplejpeg.decode_jpeg(path.read_bytes())))


@pytest.mark.parametrize(
    ("read", "pixels", "stage"),
    [
        (through_pillow, PIXELS, "decode (Pillow)"),
        (in_draft, PIXELS // 16, "decode (Pillow)"),
        (through_opencv, PIXELS, "decode (OpenCV)"),
        (reduced, PIXELS // 16, "decode (OpenCV)"),
        (from_memory, PIXELS, "decode (OpenCV)"),
        (through_simplejpeg, PIXELS, "decode (simplejpeg)"),
    ],
)
def test_pixels_are_those_that_a_decoder_has_made(
    photo: Path, read: Callable[[Path], Any], pixels: int, stage: str
) -> None:
    found = decoded(lambda _: read(photo))
    assert found == Decoded(unit=Unit.PIXEL, stages=(stage,), decoded=pixels, used=32 * 32)


@pytest.mark.parametrize("kind", ["png", "webp", "bmp", "gif", "tiff"])
def test_a_picture_of_any_kind_is_decoded_once(photo: Path, kind: str) -> None:
    held = io.BytesIO()
    PIL.Image.open(photo).save(held, kind)
    found = decoded(lambda _: small(PIL.Image.open(io.BytesIO(held.getvalue()))))
    assert found.decoded == PIXELS


def test_a_picture_that_is_only_looked_at_or_is_none_counts_for_nothing(photo: Path) -> None:
    def wide(_: int) -> int:
        with PIL.Image.open(photo) as image:
            return image.width

    no_picture = np.zeros(99, np.uint8)
    assert read_decoded(watched(wide)) == ()
    assert read_decoded(watched(lambda _: cv2.imdecode(no_picture, 1) is None)) == ()


def test_the_pixels_of_samples_are_what_their_cost_goes_with(photo: Path) -> None:
    picture = PIL.Image.open(photo)
    sizes = [(160 * side, 120 * side) for side in range(1, 13)]
    data = [cv2.imencode(".jpg", np.asarray(picture.resize(size)))[1] for size in sizes]

    class Sizes(Read):
        def __len__(self) -> int:
            return 72

    records: list[dict[str, Any]] = []
    one = Sizes(lambda index: int(cv2.imdecode(data[index % 12], cv2.IMREAD_COLOR)[0, 0, 0]))
    with stages.install(one, records.append, where="main"):
        for _ in DataLoader(one, batch_size=4):
            pass
    assert slowest_samples(records)[0].pixels in [width * height for width, height in sizes]
    trend = cost_trend(records)
    assert trend is not None
    assert trend.per_pixel_s is not None and 1e-10 < trend.per_pixel_s < 1e-6
    assert trend.per_byte_s is None, "nothing here is a file"


# -- video -----------------------------------------------------------------------------------------


def from_the_start(path: Path, first: int, count: int) -> torch.Tensor:
    """Reads on until the clip is there."""
    capture = cv2.VideoCapture(str(path))
    frames = [capture.read()[1] for _ in range(first + count)]
    capture.release()
    return torch.from_numpy(np.stack(frames[first:]))


def grabbed(path: Path, first: int, count: int) -> torch.Tensor:
    """The same without taking the frames before; they are decoded all the same."""
    capture = cv2.VideoCapture(str(path))
    for _ in range(first):
        assert capture.grab()
    frames = []
    for _ in range(count):
        capture.grab()
        frames.append(capture.retrieve()[1])
    return torch.from_numpy(np.stack(frames))


def sought(path: Path, first: int, count: int) -> torch.Tensor:
    capture = cv2.VideoCapture(str(path))
    capture.set(cv2.CAP_PROP_POS_FRAMES, first)
    return torch.from_numpy(np.stack([capture.read()[1] for _ in range(count)]))


@pytest.mark.parametrize(
    ("read", "frames"), [(from_the_start, 34), (grabbed, 34), (sought, 4)], ids=lambda it: str(it)
)
def test_frames_are_those_that_were_decoded_on_the_way(
    video: Path, read: Callable[..., Any], frames: int
) -> None:
    found = decoded(lambda _: read(video, 30, 4))
    assert found.unit is Unit.FRAME
    assert found.stages == ("decode (OpenCV video)",)
    assert (found.decoded, found.used) == (frames, 4)


def test_the_end_of_a_video_is_no_frame(video: Path) -> None:
    def all_of_it(_: int) -> torch.Tensor:
        capture, frames = cv2.VideoCapture(str(video)), []
        while True:
            is_there, frame = capture.read()
            if not is_there:
                return torch.from_numpy(np.stack(frames)).permute(3, 0, 1, 2)
            frames.append(frame)

    found = decoded(all_of_it)
    assert (found.decoded, found.used) == (FRAMES, FRAMES)


def test_a_video_that_is_kept_for_several_samples_is_no_waste(video: Path) -> None:
    kept: dict[int, torch.Tensor] = {}

    def clip(index: int) -> torch.Tensor:
        which = index // 4
        if which not in kept:
            kept[which] = from_the_start(video, 0, FRAMES)
        return kept[which][10 * (index % 4) :][:10]

    found = decoded(clip)
    assert (found.decoded, found.used) == (10, 10)


def test_methods_of_compiled_classes_are_put_back(video: Path) -> None:
    before = dict(vars(cv2.VideoCapture))
    decoded(lambda _: sought(video, 3, 4))
    assert dict(vars(cv2.VideoCapture)) == before
    assert sought(video, 3, 4).shape == (4, 48, 64, 3)


# -- tables ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("table") / "rows.parquet"
    values = np.random.default_rng(0).random((2000, 16))
    columns = {f"c{place}": values[:, place] for place in range(16)}
    parquet.write_table(pyarrow.table(columns), path, row_group_size=500)
    return path


def row_of(group: pyarrow.Table, row: int) -> torch.Tensor:
    return torch.tensor([column[row].as_py() for column in group.columns], dtype=torch.float64)


def test_rows_are_those_of_the_group_that_a_row_is_taken_from(table: Path) -> None:
    found = decoded(lambda i: row_of(parquet.ParquetFile(table).read_row_group(i % 4), i))
    assert found.stages == ("read (pyarrow)",)
    assert (found.unit, found.decoded) == (Unit.ROW, 500)
    assert found.used == pytest.approx(1, rel=0.01)


def test_a_table_that_is_read_whole_counts_its_rows_once(table: Path) -> None:
    found = decoded(lambda i: row_of(parquet.read_table(table), i))
    assert (found.decoded, found.used) == (2000, pytest.approx(1, rel=0.01))
