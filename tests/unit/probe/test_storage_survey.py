import os
from pathlib import Path

import pytest

from stoker.errors import InputError
from stoker.probe.storage.filesystem import mounted
from stoker.probe.storage.inventory import FoundFile, open_times, take_inventory
from stoker.probe.storage.phase import COLD
from stoker.probe.storage.scratch import scratch_file
from stoker.probe.storage.steps import MB, steps_for
from stoker.probe.storage.survey import SurveyPlan, survey
from stoker.records.codec import from_json, to_json
from stoker.records.storage import SCHEMA, StorageReport, Temperature

KB = 1024
SHORT = SurveyPlan(seconds=1.0, most_bytes=60 * MB, readers=(1, 2, 4))


def make_files(folder: Path, count: int, size: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for index in range(count):
        (folder / f"{index:04}").write_bytes(os.urandom(size))


def on_disk(path: Path) -> Path:
    if mounted(str(path)).never_cold:
        pytest.skip("the temporary folder is in memory, where nothing can be evicted")
    return path


def names(report: StorageReport) -> set[tuple[str, Temperature | None]]:
    return {(test.name, test.temperature) for test in report.tests}


def test_a_folder_of_photos_and_a_large_file_gets_every_test(tmp_path: Path) -> None:
    make_files(on_disk(tmp_path) / "photos", 60, 80 * KB)
    (tmp_path / "large").write_bytes(os.urandom(20 * MB))
    report = survey(str(tmp_path), SHORT)
    both = {
        (name, temperature)
        for name in ("sequential", "random-4k", "random-64k", "random-1m", "files")
        for temperature in Temperature
    }
    assert names(report) == both | {("list", None), ("stat", None), ("open", None)}
    assert report.cold_impossible is None
    assert report.files == 61
    assert report.scaling is not None
    assert {point.readers for point in report.parallel} == {1, 2, 4}
    assert report.bytes_read <= SHORT.most_bytes
    for test in report.tests:
        if test.temperature is Temperature.COLD:
            assert test.cached_share == 0.0
    assert report.cold_fit is not None
    assert report.warm_fit is not None
    assert report.cold_fit.latency is not None
    assert report.warm_fit.latency is not None
    assert report.cold_fit.latency.median > report.warm_fit.latency.median


def test_the_report_survives_the_way_through_json(tmp_path: Path) -> None:
    make_files(on_disk(tmp_path), 20, 80 * KB)
    report = survey(str(tmp_path), SHORT)
    again = from_json(to_json(report), StorageReport, source="x.json", schema=SCHEMA)
    assert names(again) == names(report)
    assert again.scaling == report.scaling


def test_one_file_is_enough(tmp_path: Path) -> None:
    path = on_disk(tmp_path) / "shard.tar"
    path.write_bytes(os.urandom(12 * MB))
    report = survey(str(path), SHORT)
    assert ("random-64k", Temperature.COLD) in names(report)
    assert report.files == 1
    assert any("small files" in text for text in report.skipped)


def test_a_small_file_alone_is_told_to_be_too_little(tmp_path: Path) -> None:
    path = tmp_path / "photo.jpg"
    path.write_bytes(bytes(50 * KB))
    report = survey(str(path), SHORT)
    assert report.scaling is None
    assert any("4 MiB or more" in text for text in report.skipped)


def test_progress_is_told_in_order(tmp_path: Path) -> None:
    make_files(on_disk(tmp_path), 20, 80 * KB)
    told: list[tuple[str, float, float]] = []
    survey(str(tmp_path), SHORT, on_step=lambda *step: told.append(step))
    shares = [share for _, share, _ in told]
    assert shares == sorted(shares)
    assert told[0][0] == "small files, cold"
    assert "4 readers together" in {text for text, _, _ in told}
    assert all(left <= SHORT.seconds for _, _, left in told)


@pytest.mark.parametrize("kind", ["missing", "empty", "pipe", "empty files"])
def test_what_cannot_be_read_is_refused_in_three_parts(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind != "missing":
        path.mkdir()
    if kind == "empty files":
        (path / "a").touch()
    with pytest.raises(InputError) as caught:
        survey(str(path), SHORT)
    assert str(path) in caught.value.happened
    assert caught.value.looked_at
    assert "stoker storage" in caught.value.run_next


def test_an_empty_folder_is_written_to_only_when_allowed_and_is_left_empty(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds nothing to read"):
        survey(str(tmp_path), SHORT)
    report = survey(str(tmp_path), SHORT._replace(allow_write=True))
    assert report.scratch_bytes > 0
    assert report.scratch_bytes <= SHORT.most_bytes
    assert any(name == "random-64k" for name, _ in names(report))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_files_is_never_written_to(tmp_path: Path) -> None:
    make_files(tmp_path, 20, 80 * KB)
    report = survey(str(tmp_path), SHORT._replace(allow_write=True))
    assert report.scratch_bytes == 0


def test_the_scratch_file_has_no_name_while_it_is_there(tmp_path: Path) -> None:
    with scratch_file(str(tmp_path), 3 * MB, seconds=10) as scratch:
        assert scratch.size == 3 * MB
        assert Path(scratch.path).stat().st_size == 3 * MB
        assert list(tmp_path.iterdir()) == []
    assert not Path(scratch.path).exists()


def test_the_scratch_file_has_no_name_where_the_file_system_wants_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def without_tmpfile(path: str, flags: int, *rest: int, **named: int) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(95, "Operation not supported")
        return real(path, flags, *rest, **named)

    monkeypatch.setattr(os, "open", without_tmpfile)
    with scratch_file(str(tmp_path), MB, seconds=10) as scratch:
        assert Path(scratch.path).stat().st_size == MB
        assert list(tmp_path.iterdir()) == []


def test_the_scratch_file_goes_when_reading_it_fails(tmp_path: Path) -> None:
    with (
        pytest.raises(KeyboardInterrupt),
        scratch_file(str(tmp_path), MB, seconds=10) as scratch,
    ):
        raise KeyboardInterrupt
    assert not Path(scratch.path).exists()
    assert list(tmp_path.iterdir()) == []


def test_the_inventory_passes_over_what_is_no_data(tmp_path: Path) -> None:
    make_files(tmp_path / "deep" / "er", 3, 10)
    (tmp_path / "empty").touch()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "deep" / "er" / "0000")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "broken").symlink_to(tmp_path / "none")
    inventory = take_inventory(str(tmp_path), seconds=10)
    assert {Path(file.path).name for file in inventory.files} == {"0000", "0001", "0002", "link"}
    assert inventory.is_complete
    assert set(inventory.skipped) == {
        "1 files are empty",
        "2 entries are no plain files",  # the pipe, and the link to a folder
        "1 files can't be looked up",
    }
    assert len(inventory.listing_s) == 3
    assert len(list(open_times(inventory.files, seconds=10))) == 4


def test_the_inventory_ends_when_its_time_is_up(tmp_path: Path) -> None:
    for index in range(20):
        make_files(tmp_path / str(index), 1, 10)
    ticks = iter(range(10**6))
    inventory = take_inventory(str(tmp_path), seconds=30, clock=lambda: float(next(ticks)))
    assert not inventory.is_complete
    assert 0 < len(inventory.files) < 20


def test_steps_read_distinct_ranges_inside_the_files() -> None:
    sizes = {"a": 100 * MB, "b": 5 * MB + 123}
    files = [FoundFile(path, size) for path, size in sizes.items()]
    steps, _ = steps_for(files, (1, 2))
    for step in steps:
        seen = set()
        for request in step.supply.requests:
            assert request.offset + request.length <= sizes[request.path]
            assert (request.path, request.offset) not in seen
            seen.add((request.path, request.offset))


def test_steps_use_at_most_the_whole_of_time_and_bytes() -> None:
    files = [FoundFile("large", 100 * MB), *(FoundFile(f"f{i}", 50 * KB) for i in range(100))]
    steps, skipped = steps_for(files, (1, 2, 4, 8, 16))
    assert skipped == []
    assert 0.8 < sum(step.share for step in steps) <= 0.96  # some is left for the inventory
    assert any(step.temperature == COLD for step in steps)
