"""Every fault once: nothing is lost, nothing hangs, and what happened is told."""

from __future__ import annotations

import errno
import io
import os
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

from stoker.errors import InputError, PackError
from stoker.pack import journal, open_pack, shard
from stoker.pack.build import How, build
from stoker.pack.imaging import open_picture, size_of
from stoker.pack.journal import Journal
from stoker.pack.manifest import BadSample
from tests.unit.pack.conftest import contents, job_of, packed, photo


def quarantine(photos: Path, tmp_path: Path, **options: object) -> tuple[BadSample, ...]:
    return packed(photos, tmp_path / "p", **options).quarantine


BROKEN = {
    "empty": (b"", "ValueError: the file is empty"),
    "cut": (None, "OSError: image file is truncated"),
    "text": (b"this is no picture at all", "UnidentifiedImageError: cannot identify image file"),
}


@pytest.mark.parametrize("tier", ["raw", "crop-jpeg", "keep"])
@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_picture_is_left_out_and_no_index_moves(
    photos: Path, tmp_path: Path, kind: str, tier: str
) -> None:
    size = None if tier == "keep" else 24
    whole = packed(photos, tmp_path / "whole", tier=tier, size=size).pack
    path = photos / "b" / "04.jpg"
    data, reason = BROKEN[kind]
    path.write_bytes(path.read_bytes()[:-60] if data is None else data)
    (bad,) = quarantine(photos, tmp_path, tier=tier, size=size)
    pack = open_pack(tmp_path / "p")
    assert (bad.source, len(pack)) == ("b/04.jpg", 21)
    assert bad.reason.startswith(reason)
    assert pack.source(bad.index) == "b/04.jpg"
    assert pack.quarantined.tolist() == [bad.index]
    assert len(pack.usable) == 20
    assert int(pack.value("label", bad.index)) == -1
    assert not np.frombuffer(pack.raw("image", bad.index), np.uint8).any()
    assert whole is not None
    for index in pack.usable.tolist():
        assert bytes(pack.raw("image", index)) == bytes(whole.raw("image", index))


def test_the_reason_is_the_same_every_time(photos: Path, tmp_path: Path) -> None:
    (photos / "b" / "04.jpg").write_bytes(b"nothing")
    for name in ("1", "2"):
        packed(photos, tmp_path / name, How(workers=1))
    assert contents(tmp_path / "1") == contents(tmp_path / "2")


def test_a_source_that_vanishes_while_packing_is_left_out(photos: Path, tmp_path: Path) -> None:
    job = job_of(photos)
    (photos / "c" / "02.jpg").unlink()
    done = build(job, tmp_path / "p", How())
    assert [bad.reason for bad in done.quarantine] == ["FileNotFoundError: the file vanished"]


def test_an_unreadable_source_is_left_out(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, path = os.open, photos / "c" / "02.jpg"

    def denied(name: str, *flags: int, **options: int) -> int:
        if name == str(path):  # its mode would not keep root from reading it
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return opened(name, *flags, **options)

    monkeypatch.setattr(os, "open", denied)
    (bad,) = quarantine(photos, tmp_path)
    assert (bad.source, bad.reason) == ("c/02.jpg", "PermissionError: Permission denied")


def test_a_folder_in_the_place_of_a_picture_is_left_out(photos: Path, tmp_path: Path) -> None:
    job = job_of(photos)
    (photos / "c" / "02.jpg").unlink()
    (photos / "c" / "02.jpg").mkdir()
    (bad,) = build(job, tmp_path / "p", How()).quarantine
    assert bad.reason == "IsADirectoryError: Is a directory"


def test_a_pipe_or_a_device_in_the_place_of_a_picture_is_left_out(
    photos: Path, tmp_path: Path
) -> None:
    os.mkfifo(photos / "c" / "fifo.png")
    (photos / "c" / "zero.png").symlink_to("/dev/zero")
    found = quarantine(photos, tmp_path)
    assert [bad.source for bad in found] == ["c/fifo.png", "c/zero.png"]
    assert {bad.reason for bad in found} == {"OSError: it is no file: a pipe or a device"}


def _save(image: Image.Image, path: Path, **options: object) -> None:
    image.save(path, **options)


def test_unusual_pictures_become_rgb_as_users_code_has_them(photos: Path, tmp_path: Path) -> None:
    folder = photos / "d"
    folder.mkdir()
    image = photo(3, (48, 40))
    _save(image.convert("CMYK"), folder / "cmyk.jpg")
    _save(image.convert("L"), folder / "gray.jpg")
    _save(image.convert("RGBA"), folder / "rgba.png")
    _save(image.convert("P"), folder / "palette.png", transparency=bytes([0, 9]))
    deep = np.asarray(image.convert("L")).astype(np.uint16) * 257
    Image.fromarray(deep).save(folder / "deep.png")
    _save(image, folder / "moving.png", save_all=True, append_images=[photo(4, (48, 40))])
    exif = Image.Exif()
    exif[0x0112] = 6
    _save(image, folder / "turned.jpg", exif=exif)
    done = packed(photos, tmp_path / "p")
    assert done.quarantine == ()
    assert {name: done.notes[name] for name in sorted(done.notes) if name != "cut"} == {
        "16-bit": 1,
        "cmyk": 1,
        "exif-ignored": 1,
        "first-frame": 1,
        "gray": 1,
    }
    pack = done.pack
    assert pack is not None
    by_name = {pack.source(index): pack.value("image", index) for index in range(len(pack))}
    with Image.open(folder / "cmyk.jpg") as cmyk:
        expected = cmyk.convert("RGB").resize((28, 24), Image.Resampling.BILINEAR)
    np.testing.assert_array_equal(by_name["d/cmyk.jpg"], np.asarray(expected)[:, 2:26])
    for name in ("gray.jpg", "rgba.png", "palette.png", "moving.png", "turned.jpg"):
        with Image.open(folder / name) as opened:  # of an animation the first frame
            whole = opened.convert("RGBA") if opened.mode == "P" else opened
            resized = whole.convert("RGB").resize((28, 24), Image.Resampling.BILINEAR)
        np.testing.assert_array_equal(by_name[f"d/{name}"], np.asarray(resized)[:, 2:26])
    deep_found = by_name["d/deep.png"].astype(int)
    assert np.abs(deep_found - by_name["d/gray.jpg"]).mean() < 4


def test_an_exif_rotation_is_applied_when_asked_for(photos: Path, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    photo(3, (48, 24)).save(photos / "a" / "zz.jpg", exif=exif, quality=95)
    done = packed(photos, tmp_path / "p", exif="apply", fit="exact")
    assert done.notes == {"exif-applied": 1}
    pack = done.pack
    assert pack is not None
    (index,) = [n for n in range(len(pack)) if pack.source(n) == "a/zz.jpg"]
    turned = photo(3, (48, 24)).transpose(Image.Transpose.ROTATE_270).resize((24, 24))
    difference = pack.value("image", index).astype(int) - np.asarray(turned)
    assert np.abs(difference).mean() < 8


@pytest.mark.parametrize("exif", ["ignore", "apply"])
def test_exif_data_that_cannot_be_read_spoil_no_picture(
    photos: Path, tmp_path: Path, exif: str
) -> None:
    path = photos / "a" / "00.png"
    photo(0, (24, 24)).save(path, exif=b"Exif\x00\x00no header of a TIFF")
    done = packed(photos, tmp_path / "p", exif=exif, fit="exact")
    assert done.quarantine == ()
    assert done.notes == {"exif-unreadable": 1}
    assert done.pack is not None
    np.testing.assert_array_equal(done.pack.value("image", 0), np.asarray(photo(0, (24, 24))))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_exif_orientation_is_applied_as_pillow_does(tmp_path: Path, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    buffer = io.BytesIO()
    photo(3, (48, 24)).save(buffer, "PNG", exif=exif)
    found, _ = open_picture(buffer.getvalue(), exif="apply")
    expected = ImageOps.exif_transpose(Image.open(buffer))
    np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))
    assert size_of(buffer.getvalue(), exif="apply") == (found.height, found.width)


def test_a_picture_of_huge_dimensions_is_left_out_before_it_is_decoded(
    photos: Path, tmp_path: Path
) -> None:
    buffer = io.BytesIO()
    Image.new("1", (8, 8)).save(buffer, "PNG")
    data = bytearray(buffer.getvalue())
    data[16:24] = (40_000).to_bytes(4, "big") * 2
    import zlib

    data[29:33] = zlib.crc32(data[12:29]).to_bytes(4, "big")
    (photos / "a" / "huge.png").write_bytes(data)
    (bad,) = quarantine(photos, tmp_path)
    assert bad.reason.startswith("DecompressionBombError: Image size (1600000000 pixels)")


def test_names_of_any_kind_come_through(photos: Path, tmp_path: Path) -> None:
    strange = ["ü ñ 漢字 🎞.jpg", "a,b;c\t'\".jpg", "new\nline.jpg"]
    for name in strange:
        photo(3).save(photos / "a" / name)
    bytes_name = os.fsencode(photos / "a") + b"/caf\xe9.jpg"
    Path(os.fsdecode(bytes_name)).write_bytes(b"")
    done = packed(photos, tmp_path / "p")
    assert [bad.source for bad in done.quarantine] == ["a/caf\\udce9.jpg"]
    assert done.pack is not None
    raw = {bytes(done.pack.raw("source", index)) for index in range(len(done.pack))}
    assert {f"a/{name}".encode() for name in strange} | {b"a/caf\xe9.jpg"} <= raw


def test_more_bad_samples_than_allowed_stop_it_and_it_can_go_on(
    photos: Path, tmp_path: Path
) -> None:
    for name in ("a/06.jpg", "b/04.jpg", "c/14.jpg"):
        (photos / name).write_bytes(b"")
    with pytest.raises(PackError, match=r"samples that could not be read: [0-9]+, allowed: 1"):
        packed(photos, tmp_path / "p", How(max_bad=1))
    done = packed(photos, tmp_path / "p", How(max_bad=3, resume=True))
    assert [bad.source for bad in done.quarantine] == ["a/06.jpg", "b/04.jpg", "c/14.jpg"]


def test_when_nothing_can_be_read_that_is_an_error_and_no_pack(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(5):
        (folder / f"{number}.jpg").write_bytes(b"x")
    with pytest.raises(PackError, match="none of the first 5 samples could be read"):
        packed(folder, tmp_path / "p")


def test_a_full_disk_keeps_what_is_finished(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_rows = shard.write_rows

    def full(folder: Path, frame: shard.ShardFrame, first: int, rows: shard.Rows) -> None:
        if frame.number == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write_rows(folder, frame, first, rows)

    monkeypatch.setattr(shard, "write_rows", full)
    with pytest.raises(PackError, match="the disk is full: No space left") as caught:
        packed(photos, tmp_path / "p")
    assert "3 of 5 shards are finished and kept" in caught.value.looked_at
    monkeypatch.undo()
    assert packed(photos, tmp_path / "p", How(resume=True)).samples == 6
    packed(photos, tmp_path / "at-once")
    assert contents(tmp_path / "p") == contents(tmp_path / "at-once")


@pytest.mark.parametrize("what", ["journal.Journal.add", "manifest.write"])
def test_a_disk_that_is_full_for_the_last_bytes_is_told_too(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(f"stoker.pack.{what}", full)
    with pytest.raises(PackError, match="the disk is full: No space left"):
        packed(photos, tmp_path / "p")
    monkeypatch.undo()
    assert packed(photos, tmp_path / "p", How(resume=True)).pack is not None


def test_a_target_below_a_file_is_refused(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be made: Not a directory"):
        packed(photos, photos / "a" / "03.jpg" / "p")


def test_a_target_that_is_a_file_is_refused(photos: Path) -> None:
    for target in (photos / "a" / "03.jpg", Path("/dev/null")):
        with pytest.raises(InputError, match="is a file; a pack is a folder") as raised:
            packed(photos, target)
        assert raised.value.run_next == "give a new folder"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read_is_refused(photos: Path) -> None:
    photos.chmod(0)
    try:
        with pytest.raises(InputError, match="cannot be read: Permission denied"):
            job_of(photos)
    finally:
        photos.chmod(0o755)


def test_a_disk_that_is_too_small_is_told_before_anything_is_written(
    photos: Path, tmp_path: Path
) -> None:
    job = job_of(photos, size=200_000, shard_bytes=10**12)
    with pytest.raises(PackError, match=r"GB are to be written, .* GB are free"):
        build(job, tmp_path / "p", How())


def test_of_kept_files_the_room_is_known_too(photos: Path, tmp_path: Path) -> None:
    job = job_of(photos, tier="keep", size=None)
    files = sum(path.stat().st_size for path in photos.rglob("*.*"))
    assert job.payload_bytes() == files
    job.listing.sizes[7] = 10**16
    with pytest.raises(PackError, match=r"GB are to be written, .* GB are free"):
        build(job, tmp_path / "p", How())
    assert list((tmp_path / "p").iterdir()) == []


def test_a_living_packers_lock_is_respected_and_a_dead_ones_is_none(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker.pack.journal._LOCK_WAIT_S", 0.0)
    (tmp_path / "p").mkdir()
    held = Journal(tmp_path / "p")
    for resume in (True, False):
        with pytest.raises(InputError, match=r"another stoker pack .*is writing") as raised:
            packed(photos, tmp_path / "p", How(resume=resume))
        assert "remove" not in raised.value.run_next
    held.close()
    assert packed(photos, tmp_path / "p").pack is not None


def test_who_holds_the_lock_is_named_where_the_kernel_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker.pack.journal._LOCK_WAIT_S", 0.0)
    monkeypatch.setattr("stoker.pack.journal._LOCKS", tmp_path / "locks")
    held = Journal(tmp_path)
    file = held.path.stat()
    device = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}"
    for pid, named in ((4711, r"stoker pack \(process 4711\) is"), (-1, "stoker pack is")):
        lines = f"1: POSIX  ADVISORY  WRITE 1 {device}:{file.st_ino} 0 EOF\n"
        lines += f"2: FLOCK  ADVISORY  WRITE {pid} {device}:{file.st_ino} 0 EOF\n"
        lines += f"3: FLOCK  ADVISORY  WRITE 12 00:00:{file.st_ino} 0 EOF\n"
        (tmp_path / "locks").write_text(lines)
        with pytest.raises(InputError, match=named):
            journal.read(held.path)
    held.close()
    journal.read(held.path)


def _tar(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def test_archives_that_reach_outside_are_refused(tmp_path: Path) -> None:
    for name in ("../x.jpg", "/etc/x.jpg", "a/../../x.jpg"):
        with pytest.raises(InputError, match="leads out of the archive"):
            job_of(_tar(tmp_path / "t.tar", {name: b"x"}))
        with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
            archive.writestr(name, b"x")
        with pytest.raises(InputError, match="leads out of the archive"):
            job_of(tmp_path / "z.zip")


def test_bombs_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "z.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/x.jpg", bytes(3_000_000))
    with pytest.raises(InputError, match="swells from"):
        job_of(tmp_path / "z.zip")
    data = bytearray(_tar(tmp_path / "t.tar", {"x.jpg": b"x"}).read_bytes())
    info = tarfile.TarInfo("x.jpg")
    info.size = 1 << 40
    data[:512] = info.tobuf(tarfile.GNU_FORMAT)[:512]
    (tmp_path / "t.tar").write_bytes(data)
    with pytest.raises(InputError, match="has 1,099,511,627,776 bytes"):
        job_of(tmp_path / "t.tar")


@pytest.mark.parametrize("name", ["t.tar", "t.zip"])
def test_damaged_archives_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"no archive" * 100)
    with pytest.raises(InputError, match="cannot be read as a"):
        job_of(tmp_path / name)


def test_a_pipe_among_tars_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.tar")
    with pytest.raises(InputError, match=r"a\.tar cannot be read as a tar archive: it is a pipe"):
        job_of(tmp_path)
