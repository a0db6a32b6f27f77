"""What `stoker storage` shows: finished strings of a StorageReport, and how they are laid out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich import box
from rich.console import RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from stoker.records.storage import (
    AccessTest,
    FileSystem,
    RatePoint,
    ReadFit,
    StorageReport,
    StoreKind,
    StoreScaling,
)
from stoker.report.canvas import Canvas, drawn
from stoker.report.numbers import amount, percent, spread
from stoker.report.plain import line
from stoker.report.tables import bare_table, headed, pairs
from stoker.stats import Spread

_TESTS = {
    "list": "list a folder",
    "stat": "look up a file",
    "open": "open a file",
    "sequential": "in order, 1 MiB",
    "random-4k": "at random, 4 KiB",
    "random-64k": "at random, 64 KiB",
    "random-1m": "at random, 1 MiB",
    "files": "small files, whole",
}
_MEANING = {
    StoreKind.LATENCY: "Each read waits and many can wait at once: more workers, or reading "
    "ahead, give more.",
    StoreKind.SLOTS: "A limited number of reads run at a time: workers help up to that number, "
    "then only fewer reads do.",
    StoreKind.ONE_HEAD: "Reads stand in one queue: more workers give nothing, fewer and larger "
    "reads (shards) or a nearer copy do.",
    StoreKind.BANDWIDTH: "Bytes a second are the limit: fewer bytes a sample or a nearer copy "
    "help, more workers don't.",
    StoreKind.THROTTLED: "An allowance was used up and a fixed rate is left: a nearer copy, fewer "
    "reads or a higher limit help, more workers don't.",
    StoreKind.FAST: "The store gives more than this machine's processors take: look for the "
    "limit elsewhere.",
    StoreKind.UNKNOWN: "What limits the rate could not be told: measure longer, on more files, or "
    "with nothing beside it.",
}
_COLORS = {StoreKind.FAST: "green", StoreKind.UNKNOWN: "yellow"}


class TestRow(NamedTuple):
    """One way of reading."""

    what: str
    cache: str
    each: str
    per_s: str
    bytes_per_s: str


class ReaderRow(NamedTuple):
    """One number of readers, as measured in each round."""

    readers: str
    rounds: tuple[str, str]
    bytes_per_s: str
    own_work: str


class StorageView(NamedTuple):
    """The report as strings, in the order in which they are shown."""

    path: str
    place: str
    extent: str
    alerts: tuple[str, ...]
    kind: str
    color: str
    sentence: str
    tests: tuple[TestRow, ...]
    readers_heading: str
    readers: tuple[ReaderRow, ...]
    costs: tuple[tuple[str, str], ...]
    skipped: tuple[str, ...]


def storage_view(report: StorageReport) -> StorageView:
    """Decide every word and digit."""
    scaling = report.scaling
    return StorageView(
        path=line(report.path),
        place=_place(report.file_system),
        extent=_extent(report),
        alerts=_alerts(report),
        kind=scaling.kind.value if scaling else "",
        color=_COLORS.get(scaling.kind, "red") if scaling else "",
        sentence=_sentence(scaling),
        tests=tuple(map(_test_row, report.tests)),
        readers_heading=_readers_heading(report),
        readers=_reader_rows(report.parallel),
        costs=tuple(
            (label, _cost(fit))
            for label, fit in (("cold", report.cold_fit), ("warm", report.warm_fit))
            if fit is not None
        ),
        skipped=tuple(line(text) for text in report.skipped),
    )


def _place(place: FileSystem) -> str:
    kind = f"{place.kind} (in memory)" if place.is_memory else place.kind
    kind = f"{kind} (a network file system)" if place.is_network else kind
    return line(f"{kind} from {place.source}, mounted at {place.mount_point}")


def _extent(report: StorageReport) -> str:
    seen = f"{report.files:,} files, {amount(report.file_bytes, 'bytes')}"
    if report.scratch_bytes:
        seen = f"no files; {amount(report.scratch_bytes, 'bytes')} were written, read and removed"
    read = f"{amount(report.bytes_read, 'bytes')} read in {amount(report.seconds, 's')}"
    return f"{seen}; {read}"


def _alerts(report: StorageReport) -> tuple[str, ...]:
    alerts = []
    if report.cold_impossible:
        alerts.append(f"nothing cold was measured: {report.cold_impossible}")
    if report.file_system.is_network:
        alerts.append(
            "cold means out of this machine's cache: the server's own cache can't be emptied "
            "from here"
        )
    return tuple(map(line, alerts))


def _sentence(scaling: StoreScaling | None) -> str:
    if scaling is None:
        return ""
    reason = scaling.reason[0].upper() + scaling.reason[1:]
    return f"{_MEANING[scaling.kind]}\n{reason}."


def _test_row(test: AccessTest) -> TestRow:
    each = spread(test.access, "s")
    if test.open is not None:
        each += f", {amount(test.open.median, 's')} of it to open"
    return TestRow(
        what=_TESTS.get(test.name, test.name),
        cache=test.temperature.value if test.temperature else "as found",
        each=each,
        per_s=f"{amount(test.accesses_per_s.median, '')}/s",
        bytes_per_s=amount(test.bytes_per_s, "bytes/s") if test.bytes_read else "",
    )


def _reader_rows(points: Sequence[RatePoint]) -> tuple[ReaderRow, ...]:
    """A row for each number of readers and size, in the order in which they were first tried."""
    rows: dict[tuple[int, str], list[RatePoint]] = {}
    for point in points:
        is_main = _is_main_size(point, points[0])
        size = "" if is_main else f" at {amount(point.bytes_per_request, 'bytes')}"
        rows.setdefault((point.readers, size), []).append(point)
    return tuple(
        ReaderRow(
            readers=f"{readers}{size}",
            rounds=(
                _rate(found[0].requests_per_s),
                _rate(found[1].requests_per_s) if len(found) > 1 else "",
            ),
            bytes_per_s=amount(found[-1].bytes_per_s, "bytes/s"),
            own_work=percent(found[-1].cpu_share),
        )
        for (readers, size), found in rows.items()
    )


def _rate(rate: Spread) -> str:
    """The rate and half its interval as a share of it: two rounds fit beside each other."""
    share = rate.half_width_share
    return f"{amount(rate.median, '')}/s" + (f" ±{share:.0%}" if share < 1 else " ±?")


def _is_main_size(point: RatePoint, first: RatePoint) -> bool:
    if not point.bytes_per_request or not first.bytes_per_request:
        return True
    # The other size tried is a quarter; means over random picks of files differ by some 10 %.
    return point.bytes_per_request > first.bytes_per_request / 2


def _readers_heading(report: StorageReport) -> str:
    if not report.parallel:
        return ""
    state = "warm" if report.cold_impossible else "cold"
    return f"Several readers, {state}, {amount(report.parallel_bytes, 'bytes')} a read"


def _cost(fit: ReadFit) -> str:
    sizes = f"{amount(fit.smallest_bytes, 'bytes')} to {amount(fit.largest_bytes, 'bytes')}"
    reads = f"fitted to {fit.reads:,} reads of {sizes}"
    if fit.latency is None:
        return f"the reads are too alike in size to tell latency from bandwidth ({sizes})"
    if fit.bytes_per_s is None:
        return f"{spread(fit.latency, 's')}, whatever the size; {reads}"
    return f"{spread(fit.latency, 's')} + bytes / {spread(fit.bytes_per_s, 'bytes/s')}; {reads}"


def render_storage(view: StorageView, canvas: Canvas) -> str:
    """The whole report as text, ending in a newline."""
    return drawn(_sections(view, canvas), canvas)


def _sections(view: StorageView, canvas: Canvas) -> Iterator[RenderableType]:
    yield Text.assemble(("stoker storage  ", "bold"), (view.path, "bold cyan"))
    yield Text(view.place)
    yield Text(view.extent)
    for alert in view.alerts:
        yield Text(f"! {alert}", style="bold yellow")
    yield Text()
    if view.kind:
        yield Panel(
            Text(view.sentence),
            title=Text(view.kind, style=f"bold {view.color}"),
            title_align="left",
            border_style=view.color,
            box=box.ROUNDED if canvas.is_unicode else box.ASCII,
            padding=(0, 1),
        )
        yield Text()
    if view.tests:
        yield from headed("One reader", [_tests(view.tests)])
    if view.readers:
        yield from headed(view.readers_heading, [_readers(view.readers)])
    if view.costs:
        yield from headed("One read costs", [pairs(view.costs)])
    if view.skipped:
        yield from headed("Left out", [Text(f"- {text}") for text in view.skipped])


def _tests(rows: Sequence[TestRow]) -> Table:
    table = bare_table()
    table.add_column("access", no_wrap=True)
    table.add_column("cache", no_wrap=True)
    table.add_column("each", ratio=1)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("", justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def _readers(rows: Sequence[ReaderRow]) -> Table:
    table = bare_table()
    table.add_column("readers", no_wrap=True)
    table.add_column("first round")
    table.add_column("second round", ratio=1)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("on a core", justify="right", no_wrap=True)
    for row in rows:
        table.add_row(row.readers, *row.rounds, row.bytes_per_s, row.own_work)
    return table
