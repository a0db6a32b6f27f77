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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stoker.remedy.code import change_of
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
    own_seen_s: float | None = None  # a step under the script's own settings, in this run
    own_seen_steps: int = 0  # that it is the mean of
    baseline_s: float | None = None
    wanted_batches: int = 0  # to be certified
    in_order: bool = True
    certificate: str | None = None
    certified: dict[str, Any] | None = None  # the same for programs
    steps: dict[Way, int] = field(default_factory=lambda: dict.fromkeys(SIDES, 0))
    seconds: dict[Way, float] = field(default_factory=lambda: dict.fromkeys(SIDES, 0.0))
    starts: dict[Way, list[float]] = field(default_factory=lambda: {way: [] for way in SIDES})

    def step(self, way: Way, seconds: float) -> None:
        """A step from batch to batch."""
        self.steps[_side(way)] += 1
        self.seconds[_side(way)] += seconds

    def start(self, way: Way, seconds: float) -> None:
        """The start of an epoch, to its first batch."""
        self.starts[_side(way)].append(seconds)

    def drop(self, request: Request, why: str) -> None:
        """One of several was rolled back."""
        self.requests = [one for one in self.requests if one.name != request.name]
        self.applied = [one for one in self.applied if one["remedy"] != str(request)]
        self.dropped.append({"remedy": str(request), "reason": why})

    @property
    def own_s(self) -> float | None:
        """A step as the script has it: measured here, or by the diagnosis."""
        return self.baseline_s if self.own_seen_s is None else self.own_seen_s

    @property
    def remedied_s(self) -> float | None:
        """The mean step with the remedies; with the starts of epochs where `own_s` has them."""
        count, seconds = self.steps[Way.REMEDIED], self.seconds[Way.REMEDIED]
        if not count:
            return None
        if self.own_seen_s is None:
            starts = self.starts[Way.REMEDIED]
            return (seconds + sum(starts)) / (count + len(starts))
        return seconds / count

    @property
    def saved_s(self) -> float | None:
        """Seconds that remedied steps, and starts of epochs, took less than own ones would have."""
        own, remedied, count = self.own_s, self.remedied_s, self.steps[Way.REMEDIED]
        if own is None or remedied is None:
            return None
        starts = self.starts[Way.REMEDIED]
        if self.own_seen_s is None:
            return (own - remedied) * (count + len(starts))
        start = _median(self.starts[Way.OWN])
        between = sum(start - one for one in starts[1:]) if start is not None else 0.0
        return (own - remedied) * count + between

    def as_record(self) -> dict[str, Any]:
        """For the JSON."""
        starts = {way.value: _median(self.starts[way]) for way in SIDES}
        return {
            "loader": self.loader,
            "applied": self.applied,
            "refused": self.refused,
            "dropped": self.dropped,
            "kept": self.kept,
            "rolled_back": self.rolled_back,
            "notes": self.notes,
            "own_step_s": self.own_s,
            "own_step_from": _source(self),
            "own_step_of": self.own_seen_steps,
            "remedied_step_s": self.remedied_s,
            "steps": {way.value: self.steps[way] for way in SIDES},
            "epoch_start_s": starts,
            "saved_s": self.saved_s,
            "certificate": self.certificate,
            "certified": self.certified,
        }


def _side(way: Way) -> Way:
    """What a way counts for: also all remedies but one are remedies."""
    return Way.OWN if way is Way.OWN else Way.REMEDIED


def _source(account: LoaderAccount) -> str | None:
    if account.own_seen_s is not None:
        return "this run"
    return "diagnosis" if account.baseline_s is not None else None


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
    own, remedied, saved = account.own_s, account.remedied_s, account.saved_s
    if remedied is None:
        return [f"{names}: the run was too short to use them"]
    count = account.steps[Way.REMEDIED]
    if own is None or saved is None:
        lines = [f"{names}: {count} steps of {milliseconds(remedied)}"]
    else:
        where = "" if _source(account) == "this run" else ", by the diagnosis"
        verb = "saved" if saved >= 0 else "lost"
        lines = [
            f"{names}: step {milliseconds(own)}{where} → {milliseconds(remedied)} "
            f"({own / remedied:.2f}x), {count} steps: about {duration(abs(saved))} {verb}"
        ]
        if account.own_seen_s is not None and account.own_seen_steps:
            # Few steps, seen at one time of the run, are no sure measure of all of it.
            lines[0] += f", judged by {account.own_seen_steps} steps without"
    before, after = _median(account.starts[Way.OWN]), _median(account.starts[Way.REMEDIED][1:])
    if account.kept is None:
        lines[0] += "; neither kept nor rolled back: the run ended before the trial was over"
    if before is not None and after is not None and before - after > remedied:
        lines.append(f"start of an epoch: {milliseconds(before)} → {milliseconds(after)}")
    return lines


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
