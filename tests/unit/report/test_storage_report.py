"""What `stoker storage` shows of a report that is written down here."""

import math

import pytest
from msgspec import structs

from stoker.records.storage import (
    AccessTest,
    FileSystem,
    RatePoint,
    ReadFit,
    StorageReport,
    StoreKind,
    StoreScaling,
    Temperature,
)
from stoker.report.canvas import Canvas
from stoker.report.storage import render_storage, storage_view
from stoker.stats import Spread


def point(readers: int, rate: float, size: float = 100_000.0) -> RatePoint:
    return RatePoint(
        readers=readers,
        requests_per_s=Spread(rate, rate * 0.95, rate * 1.05, 100),
        bytes_per_request=size,
        cpu_share=0.02,
    )


def report() -> StorageReport:
    return StorageReport(
        path="/data/photos",
        file_system=FileSystem(
            kind="nfs4", source="server:/export", mount_point="/data", is_network=True
        ),
        files=1234,
        file_bytes=123_400_000,
        tests=(
            AccessTest(
                name="files",
                temperature=Temperature.COLD,
                readers=1,
                accesses=100,
                bytes_read=10_000_000,
                wall_s=1.0,
                access=Spread(0.0102, 0.0100, 0.0104, 100),
                open=Spread(0.0021, 0.0020, 0.0022, 100),
                accesses_per_s=Spread(100.0, 95.0, 105.0, 100),
                cached_share=0.0,
            ),
        ),
        parallel_bytes=100_000,
        parallel=(
            *(point(readers, 100.0 * min(readers, 4)) for readers in (1, 2, 4, 8)),
            point(8, 405.0, 25_000.0),
            *(point(readers, 101.0 * min(readers, 4)) for readers in (1, 2, 4, 8)),
        ),
        scaling=StoreScaling(
            kind=StoreKind.SLOTS,
            reason="the rate stops rising at about 4 requests at a time",
            slots=Spread(4.0, 3.8, 4.2, 2),
        ),
        cold_fit=ReadFit(
            reads=100,
            smallest_bytes=25_000,
            largest_bytes=100_000,
            latency=Spread(0.010, 0.0098, 0.0102, 100),
            bytes_per_s=None,
        ),
        bytes_read=321_000_000,
        seconds=12.3,
        skipped=("3 files are empty",),
    )


def shown(of: StorageReport, **canvas: object) -> str:
    return render_storage(storage_view(of), Canvas(**canvas))  # type: ignore[arg-type]


def test_the_report_says_where_what_and_how_much() -> None:
    text = shown(report())
    assert "stoker storage  /data/photos" in text
    assert "nfs4 (a network file system) from server:/export, mounted at /data" in text
    assert "1,234 files, 123 MB; 321 MB read in 12.3 s" in text
    assert "slots" in text
    assert "The rate stops rising at about 4 requests at a time." in text
    assert "- 3 files are empty" in text


def test_a_network_file_system_is_said_to_have_a_cache_of_its_own() -> None:
    assert "the server's own cache can't be emptied" in " ".join(shown(report()).split())


def test_both_rounds_and_the_other_size_have_their_place() -> None:
    rows = {row.readers: row for row in storage_view(report()).readers}
    assert list(rows) == ["1", "2", "4", "8", "8 at 25.0 kB"]
    assert rows["4"].rounds == ("400/s ±5%", "404/s ±5%")
    assert rows["8 at 25.0 kB"].rounds == ("405/s ±5%", "")
    assert rows["4"].bytes_per_s == "40.4 MB/s"


def test_a_rate_without_an_interval_says_so() -> None:
    wide = structs.replace(point(1, 100.0), requests_per_s=Spread(100.0, 0.0, math.inf, 2))
    (row,) = storage_view(structs.replace(report(), parallel=(wide,))).readers
    assert row.rounds[0] == "100/s ±?"


def test_the_cost_of_a_read_follows_from_what_the_fit_could_tell() -> None:
    def cost(fit: ReadFit) -> str:
        return storage_view(structs.replace(report(), cold_fit=fit)).costs[0][1]

    fit = report().cold_fit
    assert fit is not None
    assert "whatever the size" in cost(fit)
    both = structs.replace(fit, bytes_per_s=Spread(1e8, 0.9e8, 1.1e8, 100))
    assert cost(both).startswith("10.0 ms (9.8–10.2) + bytes / 100 MB/s (90–110)")
    neither = structs.replace(fit, latency=None)
    assert "too alike in size" in cost(neither)


@pytest.mark.parametrize("kind", list(StoreKind))
def test_every_kind_has_its_meaning(kind: StoreKind) -> None:
    scaling = StoreScaling(kind=kind, reason="because")
    view = storage_view(structs.replace(report(), scaling=scaling))
    assert view.kind == kind.value
    assert view.sentence.endswith("Because.")
    assert view.color


def test_what_could_not_be_had_cold_is_said_first() -> None:
    view = storage_view(structs.replace(report(), cold_impossible="it is in memory"))
    assert view.alerts[0] == "nothing cold was measured: it is in memory"
    assert "warm" in view.readers_heading


@pytest.mark.parametrize("width", [72, 80, 100])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(map(len, shown(report(), width=width).splitlines())) <= width


def test_a_plain_terminal_gets_ascii_and_no_escapes() -> None:
    text = shown(report(), is_unicode=False)
    assert text.isascii()
    assert "\x1b" not in text


def test_a_path_can_not_steer_the_terminal() -> None:
    sly = structs.replace(report(), path="/data/\x1b[2Jx")
    assert "\x1b" not in shown(sly)
