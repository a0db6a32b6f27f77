"""Packing: pixels as the user's own code has them, the same bytes however it was done."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec
import numpy as np
import pytest
from PIL import Image

from stoker.errors import InputError, PackError
from stoker.pack import Codec, layout, open_pack
from stoker.pack.build import How, Packed, Progress, build
from stoker.pack.imaging import RESAMPLERS, fitted
from stoker.pack.job import Order
from stoker.pack.manifest import Transform
from stoker.pack.revise import appended, finalize, repacked
from stoker.spans import FakeClock
from tests.unit.pack.conftest import contents, job_of, packed, photo


def resized_and_cut(path: Path, size: int) -> np.ndarray:  # type: ignore[type-arg]
    """torchvision's Resize(size) and CenterCrop(size), spelled out."""
    image = Image.open(path).convert("RGB")
    width, height = image.size
    if width <= height:
        image = image.resize((size, int(size * height / width)), Image.Resampling.BILINEAR)
    else:
        image = image.resize((int(size * width / height), size), Image.Resampling.BILINEAR)
    top, left = (int(round((side - size) / 2.0)) for side in (image.height, image.width))  # noqa: RUF046
    return np.asarray(image)[top : top + size, left : left + size]


def test_pixels_and_labels_are_those_of_the_users_own_pipeline(
    photos: Path, tmp_path: Path
) -> None:
    pack = packed(photos, tmp_path / "p").pack
    assert pack is not None
    assert pack.classes == ("a", "b", "c")
    names = [pack.source(index) for index in range(len(pack))]
    assert names == sorted(str(p.relative_to(photos)) for p in photos.rglob("*.*"))
    for index, name in enumerate(names):
        expected = resized_and_cut(photos / name, 24)
        np.testing.assert_array_equal(pack.value("image", index), expected)
        assert pack.classes[int(pack.value("label", index))] == name[0]


@pytest.mark.parametrize("shape", [(1, 700), (700, 1), (3, 800)])
@pytest.mark.parametrize("resampler", sorted(RESAMPLERS))
def test_of_a_strip_only_the_centre_is_made(
    shape: tuple[int, int], resampler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    strip = photo(0, shape)
    way = Transform(tier="raw", size=60, fit="shorter", resampler=resampler)
    whole = np.asarray(fitted(strip, way, None)).astype(int)
    monkeypatch.setattr("stoker.pack.imaging._LARGEST_SCALED", 60 * 60)
    centre = np.asarray(fitted(strip, way, None)).astype(int)
    assert centre.shape == (60, 60, 3)
    # Pillow keeps the corners of a box in single precision.
    assert np.abs(centre - whole).mean() < 0.5
    monkeypatch.undo()
    large = fitted(strip, msgspec.structs.replace(way, size=3000), None)
    assert large.size == (3000, 3000)


@pytest.mark.parametrize("tier", ["jpeg", "crop-jpeg"])
def test_jpeg_tiers_decode_to_nearly_the_same(photos: Path, tmp_path: Path, tier: str) -> None:
    raw = packed(photos, tmp_path / "raw").pack
    pack = packed(photos, tmp_path / "jpeg", tier=tier, quality=95).pack
    assert raw is not None
    assert pack is not None
    for index in range(len(pack)):
        decoded = np.asarray(Image.open(io.BytesIO(pack.value("image", index))))
        difference = decoded.astype(int) - raw.value("image", index)
        assert np.abs(difference).mean() < 6
        shard, row = pack.locate(index)
        assert tuple(pack.shapes("image", shard)[row]) == decoded.shape


def test_the_tier_keep_has_the_files_own_bytes(photos: Path, tmp_path: Path) -> None:
    pack = packed(photos, tmp_path / "p", tier="keep", size=None).pack
    assert pack is not None
    assert pack.field("image").codec is Codec.SOURCE
    for index in range(len(pack)):
        assert pack.value("image", index) == (photos / pack.source(index)).read_bytes()


@pytest.mark.parametrize(("fit", "shape"), [("exact", (24, 24, 3)), ("pad", (24, 24, 3))])
def test_other_fits_have_the_shape_too(
    photos: Path, tmp_path: Path, fit: str, shape: tuple[int, ...]
) -> None:
    pack = packed(photos, tmp_path / "p", fit=fit).pack
    assert pack is not None
    assert pack.value("image", 0).shape == shape
    assert pack.value("image", 0).any()


def test_buckets_keep_the_aspect_family_and_each_shard_has_one_shape(
    photos: Path, tmp_path: Path
) -> None:
    pack = packed(photos, tmp_path / "p", fit="bucket").pack
    assert pack is not None
    assert pack.field("image").shape is None
    shapes = [pack.shape("image", number) for number in range(len(pack.shards))]
    assert set(shapes) == {(24, 24, 3), (24, 32, 3), (32, 24, 3), (24, 36, 3)}
    for index in range(len(pack)):
        with Image.open(photos / pack.source(index)) as image:
            is_upright = image.height > image.width
        height, width, _ = pack.value("image", index).shape
        assert (height > width) == is_upright


@pytest.mark.parametrize("tier", ["jpeg", "crop-jpeg"])
def test_buckets_of_jpegs_have_the_shapes_of_raw_ones(
    photos: Path, tmp_path: Path, tier: str
) -> None:
    raw = packed(photos, tmp_path / "raw", fit="bucket").pack
    pack = packed(photos, tmp_path / "p", fit="bucket", tier=tier).pack
    assert raw is not None
    assert pack is not None
    expected = {raw.source(n): raw.value("image", n).shape for n in range(len(raw))}
    for index in range(len(pack)):
        shard, row = pack.locate(index)
        assert tuple(pack.shapes("image", shard)[row]) == expected[pack.source(index)]
        decoded = np.asarray(Image.open(io.BytesIO(pack.value("image", index))))
        assert decoded.shape == expected[pack.source(index)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fit": "pad"}, "--fit pad without --size"),
        ({"tier": "crop-jpeg", "fit": "bucket"}, "--fit bucket without --size"),
        ({"tier": "keep", "exif": "apply"}, "the tier keep stores the files' own bytes"),
    ],
)
def test_settings_that_would_do_nothing_are_refused(
    photos: Path, options: dict[str, str], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        job_of(photos, size=None, **options)


def test_a_shuffled_order_is_a_permutation_that_the_seed_decides(
    photos: Path, tmp_path: Path
) -> None:
    first, again, other = (
        packed(photos, tmp_path / name, order=Order(seed)).pack
        for name, seed in (("1", 5), ("2", 5), ("3", 6))
    )
    assert first and again and other
    names = [[pack.source(n) for n in range(len(pack))] for pack in (first, again, other)]
    assert names[0] == names[1] != names[2]
    assert sorted(names[0]) == sorted(names[2])


def test_the_bytes_are_the_same_for_any_number_of_workers(photos: Path, tmp_path: Path) -> None:
    for tier in ("raw", "crop-jpeg"):
        for workers in (0, 2, 3):
            packed(photos, tmp_path / f"{tier}{workers}", How(workers=workers), tier=tier)
        expected = contents(tmp_path / f"{tier}0")
        assert contents(tmp_path / f"{tier}2") == expected
        assert contents(tmp_path / f"{tier}3") == expected


class _StopError(Exception):
    """Stands for a kill."""


def stopped_after(photos: Path, folder: Path, steps: int, **options: object) -> None:
    """Pack, and leave as a killed process would: at once, with all files as they are."""
    left = steps

    def on_step(_: Progress) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise _StopError

    with pytest.raises(_StopError):
        packed(photos, folder, How(on_step=on_step), **options)


@pytest.mark.parametrize("tier", ["raw", "crop-jpeg"])
@pytest.mark.parametrize("steps", [2, 3, 5])
def test_a_stopped_pack_goes_on_and_ends_with_the_same_bytes(
    photos: Path, tmp_path: Path, tier: str, steps: int
) -> None:
    packed(photos, tmp_path / "at-once", tier=tier)
    stopped_after(photos, tmp_path / "stopped", steps, tier=tier)
    with pytest.raises(PackError, match="half a pack"):
        open_pack(tmp_path / "stopped")
    with pytest.raises(InputError, match="half a pack"):
        packed(photos, tmp_path / "stopped", tier=tier)
    done = packed(photos, tmp_path / "stopped", How(resume=True), tier=tier)
    assert done.samples == 21 - 5 * (steps - 1)
    assert contents(tmp_path / "stopped") == contents(tmp_path / "at-once")


def test_what_was_stopped_before_anything_was_finished_begins_anew(
    photos: Path, tmp_path: Path
) -> None:
    stopped_after(photos, tmp_path / "p", 1)
    assert packed(photos, tmp_path / "p").samples == 21
    packed(photos, tmp_path / "at-once")
    assert contents(tmp_path / "p") == contents(tmp_path / "at-once")


def test_a_last_line_of_the_journal_that_was_cut_is_done_again(
    photos: Path, tmp_path: Path
) -> None:
    packed(photos, tmp_path / "at-once")
    stopped_after(photos, tmp_path / "p", 4)
    journal = tmp_path / "p" / layout.JOURNAL
    journal.write_bytes(journal.read_bytes()[:-20])
    assert packed(photos, tmp_path / "p", How(resume=True)).samples == 21 - 2 * 5
    assert contents(tmp_path / "p") == contents(tmp_path / "at-once")


def test_a_shard_that_vanished_is_made_again(photos: Path, tmp_path: Path) -> None:
    stopped_after(photos, tmp_path / "p", 4)
    (tmp_path / "p" / "shard-00000.image.npy").unlink()
    assert packed(photos, tmp_path / "p", How(resume=True)).pack is not None


def test_resume_of_nothing_and_of_a_whole_pack_is_fine(photos: Path, tmp_path: Path) -> None:
    assert packed(photos, tmp_path / "p", How(resume=True)).samples == 21
    again = packed(photos, tmp_path / "p", How(resume=True))
    assert again.was_whole
    assert again.samples == 0


def test_a_half_pack_is_not_continued_with_other_settings(photos: Path, tmp_path: Path) -> None:
    stopped_after(photos, tmp_path / "p", 2)
    with pytest.raises(InputError, match="other sources or settings"):
        packed(photos, tmp_path / "p", How(resume=True), size=20)
    photo(99).save(photos / "a" / "new.jpg")
    with pytest.raises(InputError, match="other sources or settings"):
        packed(photos, tmp_path / "p", How(resume=True))


def test_a_pack_or_files_of_others_are_not_written_over(photos: Path, tmp_path: Path) -> None:
    packed(photos, tmp_path / "p")
    with pytest.raises(InputError, match="is a pack already"):
        packed(photos, tmp_path / "p")
    with pytest.raises(InputError, match="not empty"):
        packed(photos, photos)


def test_changed_sources_are_refused_and_repack_makes_only_their_shards_again(
    photos: Path, tmp_path: Path
) -> None:
    first = packed(photos, tmp_path / "p").pack
    assert first is not None
    name = first.source(12)
    photo(55).save(photos / name)
    with pytest.raises(InputError, match="out of date"):
        packed(photos, tmp_path / "p", How(resume=True))
    done = build(repacked(job_of(photos), tmp_path / "p"), tmp_path / "p", How())
    assert done.pack is not None
    assert (done.samples, done.pack.generation) == (5, 2)
    np.testing.assert_array_equal(done.pack.value("image", 12), resized_and_cut(photos / name, 24))
    names = {file.name for shard in done.pack.shards for file in shard.files}
    assert {path.name for path in (tmp_path / "p").iterdir()} == names | {layout.MANIFEST}
    again = build(repacked(job_of(photos), tmp_path / "p"), tmp_path / "p", How())
    assert again.was_whole


def test_repack_makes_a_damaged_shard_again(photos: Path, tmp_path: Path) -> None:
    packed(photos, tmp_path / "p")
    path = tmp_path / "p" / "shard-00001.image.npy"
    data = bytearray(path.read_bytes())
    data[5000] ^= 1
    path.write_bytes(data)
    done = build(repacked(job_of(photos), tmp_path / "p"), tmp_path / "p", How())
    assert done.samples == 5
    assert done.pack is not None
    expected = resized_and_cut(photos / done.pack.source(5), 24)
    np.testing.assert_array_equal(done.pack.value("image", 5), expected)


def test_other_settings_than_those_of_the_pack_are_refused(photos: Path, tmp_path: Path) -> None:
    packed(photos, tmp_path / "p")
    with pytest.raises(InputError, match="made in another way: size was 24, is 20"):
        repacked(job_of(photos, size=20), tmp_path / "p")
    with pytest.raises(InputError, match="made in another way: size was 24, is 20"):
        packed(photos, tmp_path / "p", How(resume=True), size=20)


def test_append_adds_what_is_new_and_moves_nothing(photos: Path, tmp_path: Path) -> None:
    before = packed(photos, tmp_path / "p").pack
    assert before is not None
    old = [before.source(index) for index in range(len(before))]
    (photos / "aa").mkdir()
    for number in range(7):
        photo(60 + number).save(photos / "aa" / f"{number}.jpg")
    done = build(appended(job_of(photos), tmp_path / "p"), tmp_path / "p", How())
    pack = done.pack
    assert pack is not None
    assert (len(pack), done.samples, pack.generation) == (28, 7, 2)
    assert [pack.source(index) for index in range(21)] == old
    assert pack.classes == ("a", "b", "c", "aa")
    assert {int(pack.value("label", index)) for index in range(21, 28)} == {3}
    with pytest.raises(InputError, match="all 28 sources already"):
        appended(job_of(photos), tmp_path / "p")


def test_parts_of_several_machines_join_to_the_same_pack(photos: Path, tmp_path: Path) -> None:
    packed(photos, tmp_path / "at-once")
    for part in range(3):
        assert packed(photos, tmp_path / "p", How(part=part, parts=3)).pack is None
        if part < 2:
            with pytest.raises(InputError, match="shards are not packed"):
                finalize(job_of(photos), tmp_path / "p")
    assert finalize(job_of(photos), tmp_path / "p").pack is not None
    assert contents(tmp_path / "p") == contents(tmp_path / "at-once")


def test_the_rate_and_the_time_left_are_told(photos: Path, tmp_path: Path) -> None:
    clock = FakeClock()
    told: list[Progress] = []

    def on_step(step: Progress) -> None:
        told.append(step)
        clock.advance(2.0)

    packed(photos, tmp_path / "p", How(on_step=on_step, clock=clock))
    assert [step.done for step in told] == [5, 10, 15, 20, 21]
    assert (told[1].samples_per_s, told[1].left_s) == (5.0, 11 / 5)


def test_a_run_of_several_chunks_has_them_in_their_places(photos: Path, tmp_path: Path) -> None:
    done: Packed = packed(photos, tmp_path / "p", shard_bytes=10**6)
    assert done.pack is not None
    assert len(done.pack.shards) == 1
    for index in (0, 15, 16, 20):
        expected = resized_and_cut(photos / done.pack.source(index), 24)
        np.testing.assert_array_equal(done.pack.value("image", index), expected)


@pytest.mark.parametrize("tier", ["raw", "crop-jpeg"])
def test_a_shard_that_holds_not_one_sample_is_refused(photos: Path, tier: str) -> None:
    sample = 24 * 24 * 3 if tier == "raw" else 24 * 24 // 2
    with pytest.raises(InputError, match="holds not one sample, of about"):
        job_of(photos, tier=tier, shard_bytes=sample - 1)
    assert job_of(photos, tier=tier, shard_bytes=sample).shard_samples == 1
    # The usual shard is no demand: larger samples are one each.
    huge = job_of(photos, size=20_000, shard_bytes=layout.SHARD_BYTES)
    assert huge.shard_samples == 1
