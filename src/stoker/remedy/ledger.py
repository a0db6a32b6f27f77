"""The account of a run: what was applied, refused or rolled back, and what it saved.

Written to stderr line by line as it happens, and at the end as a summary. Standard library only.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import statistics
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from stoker.remedy.code import change_of
from stoker.remedy.gain import Gain, Mean, Stretches, gain
from stoker.remedy.request import Request
from stoker.remedy.trial import Way

# What an account tells apart.
SIDES = (Way.OWN, Way.REMEDIED)


@dataclass
class LoaderAccount:
    """What happened to one loader."""

    loader: str
    applied: list[dict[str, str]] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)  # what was applied
    refused: list[dict[str, str]] = field(default_factory=list)
    dropped: list[dict[str, str]] = field(default_factory=list)  # of several, those without a gain
    notes: list[str] = field(default_factory=list)
    kept: bool | None = None  # None: the trial wasn't over, or there was none
    rolled_back: str | None = None
    own_seen: Sequence[float] = ()  # steps under the script's own settings that the trial has seen
    baseline: Mean | None = None  # a step as the diagnosis has it
    workers: dict[Way, int] = field(default_factory=lambda: dict.fromkeys(SIDES, 0))
    cycle: int = 1  # batches of a step
    wanted_batches: int = 0  # to be certified
    in_order: bool = True
    certificate: str | None = None
    certified: dict[str, Any] | None = None  # the same for programs
    steps: dict[Way, Stretches] = field(default_factory=lambda: {way: Stretches() for way in SIDES})
    starts: dict[Way, list[float]] = field(default_factory=lambda: {way: [] for way in SIDES})

    def step(self, way: Way, seconds: float) -> None:
        """A step from batch to batch."""
        self.steps[_side(way)].add(seconds)

    def start(self, way: Way, seconds: float) -> None:
        """The start of an epoch, to its first batch."""
        self.starts[_side(way)].append(seconds)

    def drop(self, request: Request, why: str) -> None:
        """One of several was rolled back."""
        self.requests = [one for one in self.requests if one.name != request.name]
        self.applied = [one for one in self.applied if one["remedy"] != str(request)]
        self.dropped.append({"remedy": str(request), "reason": why})

    @property
    def own(self) -> Mean | None:
        """A step as the script has it: measured here, or by the diagnosis."""
        return Stretches(self.own_seen).mean(self._round(Way.OWN)) or self.baseline

    @property
    def remedied(self) -> Mean | None:
        """A step with the remedies; with the starts of epochs where `own` has them."""
        mean, starts = self.steps[Way.REMEDIED].mean(self._round(Way.REMEDIED)), self._starts
        if mean is None or self.own_seen or not starts:
            return mean
        seconds = (mean.seconds * mean.count + sum(starts)) / (mean.count + len(starts))
        return replace(mean, seconds=seconds)

    def _round(self, way: Way) -> int:
        """Steps that are of one piece: of as many batches as there are workers, and whole ones."""
        return -(-max(1, self.workers[way]) // self.cycle) * self.cycle

    @property
    def _starts(self) -> list[float]:
        return self.starts[Way.REMEDIED]

    @property
    def gain(self) -> Gain | None:
        """How many times as fast a step is with the remedies."""
        own, remedied = self.own, self.remedied
        return None if own is None or remedied is None else gain(own, remedied)

    @property
    def saved_s(self) -> float | None:
        """Seconds that remedied steps, and starts of epochs, took less than own ones would have."""
        own, remedied = self.own, self.remedied
        if own is None or remedied is None:
            return None
        count = remedied.count + (0 if self.own_seen else len(self._starts))
        return (own.seconds - remedied.seconds) * count + self.saved_between_s

    @property
    def saved_between_s(self) -> float:
        """What of it was saved at the starts of epochs; 0 where these are in the mean step."""
        start = _median(self.starts[Way.OWN])
        if start is None or not self.own_seen:
            return 0.0
        return sum(start - one for one in self._starts[1:])

    def as_record(self) -> dict[str, Any]:
        """For the JSON."""
        starts = {way.value: _median(self.starts[way]) for way in SIDES}
        own, remedied, found = self.own, self.remedied, self.gain
        return {
            "loader": self.loader,
            "applied": self.applied,
            "refused": self.refused,
            "dropped": self.dropped,
            "kept": self.kept,
            "rolled_back": self.rolled_back,
            "notes": self.notes,
            "own_step_s": own.seconds if own is not None else None,
            "own_step_from": _source(self),
            "own_step_of": len(self.own_seen),
            "remedied_step_s": remedied.seconds if remedied is not None else None,
            "steps": {way.value: self.steps[way].count for way in SIDES},
            "gain": asdict(found) if found is not None else None,
            "epoch_start_s": starts,
            "saved_s": self.saved_s,
            "certificate": self.certificate,
            "certified": self.certified,
        }


def _side(way: Way) -> Way:
    """What a way counts for: also all remedies but one are remedies."""
    return Way.OWN if way is Way.OWN else Way.REMEDIED


def _source(account: LoaderAccount) -> str | None:
    if account.own_seen:
        return "this run"
    return "diagnosis" if account.baseline is not None else None


def _median(values: list[float]) -> float | None:
    return statistics.median(values) if values else None


class Ledger:
    """All accounts of this process."""

    def __init__(self, *, is_quiet: bool, json_path: str | None, script: str | None) -> None:
        self._is_quiet = is_quiet
        self._json_path = json_path
        self._script = script
        self._accounts: list[LoaderAccount] = []

    def open(self, account: LoaderAccount) -> bool:
        """Take in the account of one more loader; False where it was taken in before."""
        if any(each is account for each in self._accounts):
            return False
        self._accounts.append(account)
        return True

    @property
    def is_empty(self) -> bool:
        """True while no loader has an account."""
        return not self._accounts

    def tell(self, text: str) -> None:
        """A line on stderr, whatever became of it."""
        if not self._is_quiet:
            write_line(text)

    def close(self) -> None:
        """The summary, the change of the code, and the JSON where one was asked for."""
        changes: list[str] = []  # several loaders may have one and the same
        for account in self._accounts:
            for line in summary(account):
                self.tell(line)
            if account.kept and (change := change_of(self._script, account.requests)):
                changes += [change] if change not in changes else []
        for change in changes:
            self.tell(f"the same as a change of the code:\n{change.rstrip()}")
        # Spawned workers come here at their end, too, and have nothing to tell.
        is_child = multiprocessing.parent_process() is not None
        if self._json_path is None or (is_child and not self._accounts):
            return
        # A launcher ends behind its ranks, and has no loaders.
        if self._accounts or not Path(self._json_path).exists():
            self._write_json(Path(self._json_path))

    def _write_json(self, path: Path) -> None:
        text = account_text(sys.argv, [account.as_record() for account in self._accounts])
        is_special = path.exists() and not path.is_file()  # a pipe or a device is written to
        target = path.resolve()  # a link stays one
        part = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            if is_special:
                path.write_text(text, encoding="utf-8")
                return
            part.write_text(text, encoding="utf-8")
            part.replace(target)
        except OSError as error:
            write_line(f"the account can't be written to {path}: {error.strerror}")
            with suppress(OSError):
                part.unlink(missing_ok=True)


def account_text(script: Sequence[str], loaders: Sequence[dict[str, Any]]) -> str:
    """What `--json` writes: the script's words, and what came of each loader."""
    record = {"schema": "stoker.run/1", "script": list(script), "loaders": list(loaders)}
    return json.dumps(record, indent=2) + "\n"


def write_line(text: str) -> None:
    """To the process's own stderr, whatever the script has put in its place."""
    try:
        os.write(2, f"stoker run: {text}\n".encode())
    except OSError:
        return


def summary(account: LoaderAccount) -> list[str]:
    """What came of it, in a few lines."""
    lines = _outcome(account)
    if account.certificate is not None:
        lines.append(f"data: {account.certificate}")
    elif account.wanted_batches:
        lines.append(f"data: not certified, because {_uncertified(account)}")
    return lines


def _outcome(account: LoaderAccount) -> list[str]:
    if not account.applied:
        return []
    names = ", ".join(entry["remedy"] for entry in account.applied)
    if account.rolled_back is not None:
        return [f"{names}: rolled back ({account.rolled_back})"]
    own, remedied, found = account.own, account.remedied, account.gain
    if remedied is None:
        return [f"{names}: the run was too short to use them"]
    after_s = remedied.seconds
    if own is None or found is None:
        lines = [f"{names}: {remedied.count} steps of {milliseconds(after_s)}"]
    else:
        where = "" if account.own_seen else ", by the diagnosis"
        lines = [
            f"{names}: step {milliseconds(own.seconds)}{where} → {milliseconds(after_s)} "
            f"({found.text}), {remedied.count} steps: {_saved(account, found)}"
        ]
        if account.own_seen:
            # Few steps, seen at one time of the run, are no sure measure of all of it.
            lines[0] += f", judged by {own.count} steps without"
    before, after = _median(account.starts[Way.OWN]), _median(account.starts[Way.REMEDIED][1:])
    if account.kept is None:
        lines[0] += "; neither kept nor rolled back: the run ended before the trial was over"
    if before is not None and after is not None and before - after > after_s:
        lines.append(f"start of an epoch: {milliseconds(before)} → {milliseconds(after)}")
    return lines


def _saved(account: LoaderAccount, found: Gain) -> str:
    saved_s, between_s = account.saved_s or 0.0, account.saved_between_s
    if not found.is_open:
        return _about(saved_s)
    if not between_s:
        return "no gain could be told"
    return f"no gain of a step could be told, {_about(between_s)} between epochs"


def _about(saved_s: float) -> str:
    return f"about {duration(abs(saved_s))} {'saved' if saved_s >= 0 else 'lost'}"


def _uncertified(account: LoaderAccount) -> str:
    if not account.applied:
        return "no remedy was applied: all batches are the script's own"
    if not account.in_order:
        return "batches come in any order, so that none has one to be compared with"
    if account.rolled_back is not None:
        return "no batch came by the remedies before they were rolled back"
    return "no batch came by the remedies before the run ended"


def milliseconds(seconds: float) -> str:
    """Three digits."""
    value = 1000 * seconds
    return f"{value:.0f} ms" if value >= 100 else f"{value:.3g} ms"


def duration(seconds: float) -> str:
    """As one says it."""
    if seconds < 120:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
