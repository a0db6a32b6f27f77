"""Packs what a diagnosed script loads: runs it up to its training loader and has it packed there.

The parent's side. The script's writes go to an overlay that is thrown away, as under the doctor;
only the folder of the pack is real.
"""

from __future__ import annotations

import hashlib
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from stoker import errors
from stoker.errors import InputError, NoLoopFound, ProbeError
from stoker.pack.build import Progress
from stoker.pack.errand import Errand, Summary
from stoker.probe import launch
from stoker.probe.captured import (
    BROKE,
    MOST_BATCHES,
    OTHERS,
    PACKED,
    PACKING,
    PASSED,
    PATIENCE_S,
    REFUSED,
    Wanted,
)
from stoker.probe.held_back import TO_END, held_back
from stoker.probe.session import read_lines
from stoker.probe.session_folder import session_folder
from stoker.records.profile import Script

_POLL_S = 0.2
_LEAVE_S = 1.0


def command_again(script: Script, given: str) -> list[str]:
    """The command of a diagnosed script, to be run in its folder once more.

    `given` names the diagnosis. Raises InputError where the script is gone or was changed, and for
    a launcher, whose processes each have a data set.
    """
    first, *rest = script.argv
    again = f"stoker doctor --json {given} SCRIPT [ARGS...]"
    if first == "--":
        raise InputError(
            f"{given} is the diagnosis of a launcher, {' '.join(rest)}",
            looked_at="its command line; a launcher's processes have a data set each",
            run_next=f"diagnose the script itself: {again}",
        )
    folder = Path(script.cwd)
    if not folder.is_dir():
        raise InputError(
            f"the folder that the script was run in is gone: {folder}",
            looked_at=given,
            run_next=again,
        )
    if first == "-m":
        return [sys.executable, *script.argv]
    path = folder / first
    if not path.is_file():
        raise InputError(
            f"the script {first!r} is not there any more", looked_at=str(path), run_next=again
        )
    if hashlib.sha256(path.read_bytes()).hexdigest() != script.sha256:
        raise InputError(
            f"{first} was changed since it was diagnosed: it may load something else",
            looked_at=f"{path}, and the hash of it in {given}",
            run_next=again,
        )
    return [sys.executable, *script.argv]


def packed_there(
    script: Script,
    command: list[str],
    wanted: Wanted,
    errand: Errand,
    *,
    on_step: Callable[[Progress], None],
) -> Summary:
    """Run the script up to the training loader that is `wanted`, and pack what it loads.

    Raises what packing raises there, NoLoopFound where that loader is never iterated or others are
    for longer than it is waited for, and ProbeError where the script fails before. SIGTERM,
    SIGHUP and SIGQUIT end this with their exit codes, and not before all is cleaned up.
    """
    signals: list[int] = []
    with held_back(TO_END, signals.append), session_folder() as folder:
        summary = _Run(folder, on_step, signals).run(script, command, wanted, errand)
    if signals:  # at the very end
        raise SystemExit(128 + signals[0])
    return summary


class _Run:
    """One run of the script, and what it told."""

    def __init__(
        self, folder: Path, on_step: Callable[[Progress], None], signals: list[int]
    ) -> None:
        self._folder = folder
        self._on_step = on_step
        self._signals = signals  # that came and are held back
        self._offsets: dict[Path, int] = {}
        self._answer: dict[str, Any] | None = None
        self._passed: set[str] = set()  # loaders over the same class that were another

    def run(self, script: Script, command: list[str], wanted: Wanted, errand: Errand) -> Summary:
        """Start, follow, tell what came of it."""
        prepared = launch.prepared(command, self._folder, keep=(errand.folder,), cwd=script.cwd)
        options = {
            "wanted": wanted._asdict(),
            "errand": msgspec.to_builtins(errand),
            "patience": (MOST_BATCHES, PATIENCE_S),
        }
        child = launch.start(
            prepared, self._folder, options, cwd=script.cwd, stdin=subprocess.DEVNULL
        )
        # Ctrl-C: from a terminal the script has it, too, and keeps what is finished.
        with launch.all_ended(child, self._folder, leave_s=_LEAVE_S, told=signal.SIGINT):
            code = self._follow(child)
        self._look()
        summary = self._summary(code, script, wanted)
        notes = (f"{note}; what else the script writes is real" for note in prepared.notes)
        return msgspec.structs.replace(summary, remarks=(*summary.remarks, *notes))

    def _follow(self, child: subprocess.Popen[bytes]) -> int:
        while True:
            if self._signals:
                raise SystemExit(128 + self._signals[0])
            try:
                return child.wait(_POLL_S)
            except subprocess.TimeoutExpired:
                self._look()

    def _look(self) -> None:
        for file in self._folder.glob("trainer-*.jsonl"):
            lines, self._offsets[file] = read_lines(file, self._offsets.get(file, 0))
            for line in lines:
                kind = line.pop("kind")
                if kind == PACKING:
                    self._on_step(Progress(**line))
                elif kind == PASSED:
                    self._passed.add(line["loader"])
                elif kind in (PACKED, REFUSED, BROKE, OTHERS):
                    self._answer = {"kind": kind, **line}

    def _summary(self, code: int, script: Script, wanted: Wanted) -> Summary:
        answer, name = self._answer or {"kind": None}, " ".join(script.argv)
        if answer["kind"] == PACKED:
            return msgspec.convert(answer["summary"], Summary)
        if answer["kind"] == REFUSED:
            happened, looked_at, run_next = answer["said"]
            kind = getattr(errors, answer["error"], InputError)
            raise kind(happened, looked_at=looked_at, run_next=run_next)
        if answer["kind"] == BROKE:
            raise ProbeError(
                f"packing failed in the process of {name}: {answer['text']}",
                looked_at="its traceback, above",
                run_next="pack the data set as module:object: stoker pack --help",
            )
        if answer["kind"] == OTHERS:
            raise NoLoopFound(
                f"{name} trains on other loaders, and none over {wanted} was iterated",
                looked_at=f"every DataLoader of its process, with gradients on, for "
                f"{answer['seconds']:.0f} s: {'; '.join(answer['loaders'])}",
                run_next="diagnose it anew: stoker doctor --json FILE SCRIPT; a loader that comes "
                "later: pack its data set as module:object: stoker pack --help",
            )
        if code == 130:
            raise KeyboardInterrupt
        if code != 0:
            raise ProbeError(
                f"{name} ended with exit code {code} before its training loop was reached",
                looked_at=f"a loader over {wanted}",
                run_next="its own message stands above; run it without stoker first",
            )
        raise NoLoopFound(
            f"{name} ran to its end, and no training loader over {wanted} was iterated",
            looked_at="every DataLoader of its process, with gradients on"
            + "".join(f"; passed by: {other}" for other in sorted(self._passed)),
            run_next="diagnose it anew: stoker doctor --json FILE SCRIPT",
        )
