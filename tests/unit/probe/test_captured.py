"""Which loader of a script is packed, and what is told where its writes can't be caught."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from stoker.errors import NoLoopFound
from stoker.pack.errand import Errand, Summary
from stoker.pack.manifest import Transform
from stoker.probe import capture, captured, launch
from stoker.probe.captured import Wanted
from stoker.records.profile import Script

torch = pytest.importorskip("torch")

ERRAND = Errand(
    folder="packed",
    spec="train.py:Photos",
    transform=Transform(tier="raw"),
    order_seed=None,
    shard_bytes=1,
    hashes=False,
    workers=1,
    resume=False,
    max_bad=None,
    samples_per_s=None,
    memory_bytes=0,
)
SUMMARY = Summary(
    samples=1,
    packed=1,
    seconds=1.0,
    bytes=1,
    notes={},
    quarantine=(),
    remarks=(),
    kind="dataset",
    location="",
    was_whole=False,
)


class Photos(torch.utils.data.Dataset):  # type: ignore[misc]
    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> int:
        return index


class Iterating:
    """In place of torch's class, which must stay as it is in this process."""

    def __next__(self) -> None:
        raise StopIteration


def test_validation_of_the_same_class_is_passed_by(monkeypatch: pytest.MonkeyPatch) -> None:
    packed: list[Any] = []
    told: list[dict[str, Any]] = []
    told_of: list[int] = []

    class Loader(torch.utils.data.DataLoader):  # type: ignore[misc]
        pass

    def pack(session: Any, dataset: Any, loader: Wanted) -> None:
        packed.append((dataset, str(loader)))
        raise SystemExit

    monkeypatch.setattr(captured, "_pack", pack)
    monkeypatch.setattr(captured.lifetime, "end_with", told_of.append)
    monkeypatch.setattr(captured, "_capture", None)
    module = SimpleNamespace(
        DataLoader=Loader, _BaseDataLoaderIter=Iterating, _utils=torch.utils.data._utils
    )
    name = f"{__name__}.Photos"
    session = SimpleNamespace(
        options={
            "wanted": {"dataset": name, "samples": 8, "batch_size": 4},
            "patience": (64, 60.0),
            "asked_by": (12,),
        },
        write=lambda kind, **line: told.append({"kind": kind, **line}),
    )
    captured.install(session, module)  # type: ignore[arg-type]
    validation, other, train = Photos(6), Photos(8), Photos(8)
    for dataset, size in ((validation, 4), (validation, 4), (other, 2), ([0] * 8, 4)):
        next(iter(Loader(dataset, batch_size=size)))
    with pytest.raises(SystemExit):
        iter(Loader(train, batch_size=4))
    assert told_of == [12]
    assert packed == [(train, f"{name}, 8 samples, batches of 4")]
    assert told == [
        {"kind": "passed", "loader": f"{name}, 6 samples, batches of 4"},
        {"kind": "passed", "loader": f"{name}, 8 samples, batches of 2"},
    ]


def test_other_loaders_are_enough_after_many_batches_and_a_long_time() -> None:
    others = captured._Others(4, 10.0)
    train, statistics = Wanted("Images", 8, 4), Wanted("Photos", 8, 2)
    passes = [Iterating() for _ in range(3)]
    for now in (0.0, 0.1, 0.2):  # a short pass, and a long time without any
        others.begins(passes[0], statistics)
        others.gave_batch(passes[0], now)
    others.begins(passes[1], train)
    others.gave_batch(passes[1], 100.0)
    assert not others.are_enough and others.seconds == pytest.approx(0.2)
    others.begins(passes[2], train)  # epochs of one batch
    others.gave_batch(passes[2], 102.0)
    others.gave_batch(passes[2], 202.0)  # an evaluation between two batches
    assert not others.are_enough and others.seconds == pytest.approx(0.2 + 2.0 + 2.5)
    others.gave_batch(Iterating(), 150.0)  # of a loop without gradients
    for now in (204.0, 206.0, 208.0):
        assert not others.are_enough
        others.gave_batch(passes[2], now)
    assert others.are_enough
    assert others.batches == {statistics: 3, train: 6}
    few = captured._Others(40, 10.0)
    few.begins(passes[0], train)
    for now in range(20):
        few.gave_batch(passes[0], float(now))
    assert not few.are_enough


def test_a_script_that_trains_on_other_loaders_is_told_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = {"kind": "others", "loaders": ["Images, 8 samples, batches of 4 (64 seen)"]}
    with pytest.raises(NoLoopFound, match="none over Photos, 8 samples, batches of 4") as told:
        packed_by([{**line, "seconds": 61.2}], tmp_path, monkeypatch)
    assert "for 61 s: Images, 8 samples, batches of 4 (64 seen)" in told.value.looked_at
    assert "stoker doctor --json" in told.value.run_next
    assert told.value.exit_code == 1


@pytest.mark.parametrize(
    ("known", "is_met"),
    [((8, 4), True), ((None, 4), True), ((8, None), True), ((9, 4), False), ((8, 5), False)],
)
def test_what_is_not_known_is_not_compared(known: tuple[Any, Any], is_met: bool) -> None:
    assert Wanted("Photos", *known).is_met_by(Wanted("Photos", 8, 4)) is is_met
    assert not Wanted("Others", *known).is_met_by(Wanted("Photos", 8, 4))


def packed_by(lines: list[dict[str, Any]], tmp_path: Path, monkeypatch: Any) -> Summary:
    """What comes of a script that is no script, and tells these lines."""

    def prepared(command: list[str], folder: Path, **_: Any) -> launch.Launch:
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / "trainer-1.jsonl").write_text(text)
        note = "no overlay for writes here (none): savers do nothing"
        return launch.Launch(command, "no-op", (note,))

    monkeypatch.setattr(launch, "prepared", prepared)
    script = Script(argv=("train.py",), cwd=str(tmp_path), sha256=None)
    wanted = Wanted("Photos", 8, 4)
    return capture.packed_there(script, ["true"], wanted, ERRAND, on_step=lambda _: None)


def test_writes_that_are_real_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = {"kind": "packed", "summary": msgspec.to_builtins(SUMMARY)}
    summary = packed_by([line], tmp_path, monkeypatch)
    assert summary.remarks == (
        "no overlay for writes here (none): savers do nothing; what else the script writes is real",
    )


def test_loaders_that_were_passed_by_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = {"kind": "passed", "loader": "Photos, 6 samples, batches of 4"}
    with pytest.raises(NoLoopFound, match="over Photos, 8 samples, batches of 4 was") as told:
        packed_by([line], tmp_path, monkeypatch)
    assert "passed by: Photos, 6 samples, batches of 4" in told.value.looked_at


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_termination_waits_for_all_to_be_cleaned_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """Wherever it comes: here before the script is started, and once more while it is ended."""
    cleaned: list[str] = []
    whole = {"kind": "packed", "summary": msgspec.to_builtins(SUMMARY)}

    def terminated(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), number)

    def discarded(folder: Path) -> None:
        terminated()
        cleaned.append(str(folder))

    monkeypatch.setattr(launch, "end_marked", terminated)
    monkeypatch.setattr(launch.sandbox, "discard", discarded)
    before = signal.getsignal(number)
    signal.signal(number, lambda *_: pytest.fail("it was not held back"))
    try:
        with pytest.raises(SystemExit) as ended:
            packed_by([whole], tmp_path, monkeypatch)
        with pytest.raises(SystemExit):
            monkeypatch.setattr(launch, "environment", lambda *_, **__: terminated() or {})
            packed_by([], tmp_path, monkeypatch)
    finally:
        signal.signal(number, before)
    assert ended.value.code == 128 + number
    assert len(cleaned) == 2
    assert not any(Path(folder).exists() for folder in cleaned)
