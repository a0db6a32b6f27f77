"""A packer that was killed in the worst moments: what it left is finished, or told how to be."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stoker.errors import InputError, PackError
from stoker.pack import build as building
from stoker.pack import journal, layout, open_pack
from stoker.pack.build import How, Packed, Progress, build
from stoker.pack.job import Job
from stoker.pack.journal import Head, Journal
from stoker.pack.revise import appended, finalize, repacked
from tests.unit.pack.conftest import contents, job_of, packed, photo

RESUME = How(resume=True)


class _StopError(Exception):
    """Stands for a kill."""


def killed_behind_the_manifest(job: Job, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the folder as it is in the moment when its manifest is in place, and no more."""
    as_it_was = folder.parent / "as-it-was"

    def killed(*_: object) -> None:
        shutil.copytree(folder, as_it_was)
        raise _StopError

    with monkeypatch.context() as patch, pytest.raises(_StopError):
        patch.setattr(building, "remove_strays", killed)
        build(job, folder, RESUME)
    shutil.rmtree(folder)
    as_it_was.rename(folder)
    assert (folder / layout.JOURNAL).exists()


def killed_after(steps: int, job: Job, folder: Path, how: How | None = None) -> None:
    """Leave the folder as it is after so many runs of samples, its journal too."""
    left = steps

    def on_step(_: Progress) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            shutil.copytree(folder, folder.parent / "as-it-was")
            raise _StopError

    with pytest.raises(_StopError):
        build(job, folder, (how or How())._replace(on_step=on_step))
    shutil.rmtree(folder)
    (folder.parent / "as-it-was").rename(folder)


def bigger(photos: Path) -> None:
    for number in range(7):
        photo(60 + number).save(photos / "c" / f"z{number}.jpg")


def test_a_pack_whose_journal_was_left_is_whole_and_the_same(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed(photos, tmp_path / "at-once")
    killed_behind_the_manifest(job_of(photos), tmp_path / "p", monkeypatch)
    assert packed(photos, tmp_path / "p", RESUME).was_whole
    assert contents(tmp_path / "p") == contents(tmp_path / "at-once")


def test_an_append_whose_journal_was_left_does_not_bar_the_next(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("p", "at-once"):
        packed(photos, tmp_path / name)
    bigger(photos)
    folder = tmp_path / "p"
    build(appended(job_of(photos), tmp_path / "at-once"), tmp_path / "at-once", How())
    killed_behind_the_manifest(appended(job_of(photos), folder), folder, monkeypatch)
    assert packed(photos, folder, RESUME).was_whole
    assert contents(folder) == contents(tmp_path / "at-once")
    photo(70).save(photos / "c" / "zz.jpg")
    assert build(appended(job_of(photos), folder), folder, How()).samples == 1


def test_a_repack_leaves_no_file_of_before(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "p"
    packed(photos, folder)
    (photos / "a" / "03.jpg").write_bytes((photos / "a" / "06.jpg").read_bytes())
    killed_behind_the_manifest(repacked(job_of(photos), folder), folder, monkeypatch)
    assert (folder / "shard-00000.image.npy").exists()  # of the generation before
    assert build(repacked(job_of(photos), folder), folder, How()).was_whole
    pack = open_pack(folder)
    named = {file.name for shard in pack.shards for file in shard.files}
    assert {path.name for path in folder.iterdir()} == named | {layout.MANIFEST}


@pytest.mark.parametrize("revise", [appended, repacked])
def test_half_of_an_append_goes_on_and_the_pack_stays_whole(
    photos: Path, tmp_path: Path, revise: object
) -> None:
    folder = tmp_path / "p"
    packed(photos, folder)
    bigger(photos)

    def again(how: How) -> Packed:
        return build(revise(job_of(photos), folder), folder, how)  # type: ignore[operator]

    killed_after(2, revise(job_of(photos), folder), folder)  # type: ignore[operator]
    assert len(open_pack(folder)) == 21
    with pytest.raises(InputError, match="holds half of what --append or --repack began") as told:
        again(How())
    # Never the folder: the pack in it is whole.
    assert f"or remove {folder / layout.JOURNAL} to begin anew" in told.value.run_next
    photo(80).save(photos / "c" / "zz.jpg")
    with pytest.raises(InputError, match="was begun with other sources") as told:
        again(RESUME)
    assert f"or remove {folder / layout.JOURNAL} to begin anew" in told.value.run_next
    (photos / "c" / "zz.jpg").unlink()
    done = again(RESUME)
    assert done.pack is not None and len(done.pack) == 28
    assert not (folder / layout.JOURNAL).exists()


def test_parts_that_were_joined_are_joined(photos: Path, tmp_path: Path) -> None:
    packed(photos, tmp_path / "at-once")
    folder = tmp_path / "p"
    for part in range(2):
        packed(photos, folder, How(part=part, parts=2))
    left = folder / "journal-00001-of-00002.jsonl"
    text = left.read_bytes()
    finalize(job_of(photos), folder)
    left.write_bytes(text)  # killed before it was removed
    assert finalize(job_of(photos), folder).was_whole
    assert contents(folder) == contents(tmp_path / "at-once")


def test_a_part_of_an_append_starts_beside_another_that_is_at_work(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker.pack.journal._LOCK_WAIT_S", 0.0)
    folder = tmp_path / "p"
    packed(photos, folder)
    bigger(photos)
    job = appended(job_of(photos), folder)
    other = Journal(folder, "journal-00000-of-00002.jsonl")
    other.start(Head(job.key, 0, 2, job.generation))
    assert build(job, folder, How(part=1, parts=2)).samples == 5
    other.close()


@pytest.mark.parametrize("how", [How(), RESUME])
@pytest.mark.parametrize("has_head", [True, False])
def test_killed_before_anything_was_finished_it_begins_anew(
    photos: Path, tmp_path: Path, has_head: bool, how: How
) -> None:
    packed(photos, tmp_path / "at-once")
    folder = tmp_path / "p"
    killed_after(1, job_of(photos, size=20), folder)
    if not has_head:
        (folder / layout.JOURNAL).write_bytes(b"")
    assert packed(photos, folder, how).samples == 21
    assert contents(folder) == contents(tmp_path / "at-once")


def test_a_journal_that_was_removed_meanwhile_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Journal(tmp_path)

    def given_up(_: float) -> None:
        first.close(remove=True)
        monkeypatch.undo()

    monkeypatch.setattr("stoker.pack.journal.time.sleep", given_up)
    second = Journal(tmp_path)
    second.start(Head(key=7))
    second.close()
    assert journal.read(tmp_path / layout.JOURNAL).head == Head(key=7)


def test_bad_samples_of_before_count_and_crash_nothing(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("00.png", "03.jpg", "06.jpg", "09.jpg", "12.jpg"):
        (photos / "a" / name).write_bytes(b"")
    killed_after(3, job_of(photos), tmp_path / "p")
    shutil.copytree(tmp_path / "p", tmp_path / "q")
    with pytest.raises(PackError, match="could not be read: 5, allowed: 1") as told:
        packed(photos, tmp_path / "p", How(resume=True, max_bad=1))
    assert "a/12.jpg" in told.value.looked_at
    # As many good ones now as bad ones then are no sign of a wrong source.
    monkeypatch.setattr(building, "_ALL_BAD", 5)
    assert len(packed(photos, tmp_path / "q", RESUME).quarantine) == 5
