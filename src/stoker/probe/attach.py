"""Runs somebody's training script under the probe and brings back a Profile.

The parent's side: starts the script with the probe's sitecustomize in front of its path, follows
what it writes, ends it when it won't, and cleans up. The script's own output goes to stderr.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec

import stoker
from stoker import clocks
from stoker.errors import InputError, NoLoopFound, ProbeError
from stoker.probe import gap_reading, launch, reading, sandbox, trainer_lines
from stoker.probe.command import Kind, as_typed, command_of, digest_of
from stoker.probe.descendants import descendants, end_tree, send
from stoker.probe.held_back import TO_END, held_back
from stoker.probe.host import host_facts
from stoker.probe.session import read_lines
from stoker.probe.session_folder import lack_of_room, session_folder, unusable
from stoker.probe.trials import TRY_SHARE
from stoker.records.profile import End, Environment, Profile, Script

_POLL_S = 0.2
# A script told to stop still runs its `finally` blocks and exit hooks; then it is ended.
_GRACE_S = 20.0
# What a script leaves behind mostly goes by itself: resource trackers, workers that end.
_LEAVE_S = 2.0
# Time for a launcher to pass a signal on to what it has started.
_PASS_ON_S = 5.0
# Of a script that heeds no SIGQUIT the kernel would write a core file first.
_PASSED_ON: dict[int, int] = {signal.SIGQUIT: signal.SIGTERM}
_ENDED_ITSELF = (End.SCRIPT_ENDED, End.PROBE_FAILED)


class Target(msgspec.Struct, frozen=True):
    """What to run: a script file, a module (as `python -m`), or a launcher's whole command."""

    kind: Kind
    argv: tuple[str, ...]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How long and how freely; `budget_s` is for the legs, start-up comes on top, and so does the
    time of trials (`TRY_SHARE` of it) where candidates are tried.
    """

    budget_s: float = 30.0
    steps: int | None = None
    allow_writes: bool = False
    stages: bool = True
    tries: bool = False

    @property
    def whole_s(self) -> float:
        """Seconds of legs and trials together."""
        return self.budget_s * (1 + TRY_SHARE * self.tries)


class Progress(msgspec.Struct, frozen=True):
    """Where measuring stands."""

    leg: str
    text: str
    fraction: float
    left_s: float | None


_LEG_TEXT = {
    "W": "warming up",
    "R": "the loop as it is",
    "D": "the model alone, on batches kept on the device",
    "H": "the model on batches kept on the host",
    "C": "the model while the loader works beside it",
    "L": "the loader alone",
    "S": "the loader alone, stage by stage",
    "B": "a trial: the loop as it is",
    "V": "a trial: the loop with other workers",
    "P": "where the host is inside the step",
    "F": "the model alone, on whole batches and on halves",
    "T": "the loader alone, one native thread a worker",
    "N": "handing over without work",
}


def examine(
    target: Target,
    options: Options,
    *,
    on_progress: Callable[[Progress], None] | None = None,
    stdin: int | None = None,
) -> Profile:
    """Run the target under the probe; `stdin` is a descriptor in place of this process's own.

    Returns a Profile also for a run that was interrupted or crashed, once a loop was seen. Raises
    InputError for a target that can't be run, FolderError where TMPDIR takes no file, NoLoopFound
    for a run without a training loop, and ProbeError (with the script's own exit code) for a run
    that failed before there was one.
    """
    command = command_of(target.kind, target.argv)
    script = _script(target)
    signals: list[int] = []  # held back until all is cleaned up
    with held_back(TO_END, signals.append), session_folder() as folder:
        return _Run(script, options, folder, on_progress, signals, stdin).run(command)


class _Run:
    """One examination: the child, its session folder and what is known so far."""

    def __init__(
        self,
        script: Script,
        options: Options,
        folder: Path,
        on_progress: Callable[[Progress], None] | None,
        signals: list[int],
        stdin: int | None,
    ) -> None:
        self._stdin = stdin
        self._script = script
        self._options = options
        self._folder = folder
        self._on_progress = on_progress
        self._offsets: dict[Path, int] = {}
        self._ended_at: float | None = None
        self._was_stopped = False  # by us: the plan had come to its end
        self._signals = signals
        self._writes = "allowed"
        self._notes: list[str] = []

    def run(self, command: list[str]) -> Profile:
        """Start, follow, read."""
        prepared = launch.prepared(command, self._folder, allow_writes=self._options.allow_writes)
        self._writes = prepared.writes
        self._notes += prepared.notes
        self._tell("W", "starting the script", 0.0, None)
        # Not ended before the report.
        with held_back((signal.SIGINT,), self._signals.append):
            child = self._start(prepared)
            # Also workers of a killed script, and what it has put into the background.
            with launch.all_ended(child, self._folder, leave_s=_LEAVE_S):
                code = self._follow(child)
        self._look()
        return self._profile(code)

    def _start(self, prepared: launch.Launch) -> subprocess.Popen[bytes]:
        options = {
            "budget_s": self._options.budget_s,
            "steps": self._options.steps,
            "stages": self._options.stages,
        }
        try:
            return launch.start(
                prepared, self._folder, options, stdin=self._stdin, tries=self._options.tries
            )
        except OSError as error:
            program = prepared.command[0]
            raise InputError(
                f"{program!r} can't be started: {error.strerror}",
                looked_at=shutil.which(program) or program,
                run_next="start it by its interpreter: -- bash FILE, or -- python FILE",
            ) from error

    # -- following --------------------------------------------------------------------------------

    def _follow(self, child: subprocess.Popen[bytes]) -> int:
        """Wait for the child, tell progress, end it when it must; its exit code."""
        told = None  # when the child was sent a signal of ours
        passed_on = True
        while True:
            try:
                return child.wait(_POLL_S)
            except subprocess.TimeoutExpired:
                pass
            self._look()
            now = clocks.wall_s()
            if self._signal is not None:
                if told is None:
                    told = now
                    # From a terminal the child has its SIGINT already; a second one could cut short
                    # what the script does about the first.
                    if self._signal != signal.SIGINT or not os.isatty(0):
                        child.send_signal(_PASSED_ON.get(self._signal, self._signal))
                        passed_on = False
                elif now - told > _GRACE_S:
                    end_tree(child.pid, after_s=launch.KILL_AFTER_S)
                elif now - told > _PASS_ON_S and not passed_on:
                    # A launcher may keep the signal to itself.
                    passed_on = True
                    send(descendants(child.pid), _PASSED_ON.get(self._signal, self._signal))
            elif self._ended_at is not None and now - self._ended_at > _GRACE_S:
                self._notes.append(f"the script went on {_GRACE_S:.0f} s after the stop: ended")
                end_tree(child.pid, after_s=launch.KILL_AFTER_S)

    def _look(self) -> None:
        """Read what is new in the session and tell it."""
        for file in self._folder.glob("trainer-*.jsonl"):
            lines, self._offsets[file] = read_lines(file, self._offsets.get(file, 0))
            for line in lines:
                if line["kind"] == "leg":
                    self._tell_leg(line["leg"], line["elapsed_s"], line.get("variant", ""))
                elif line["kind"] == "end" and line["elapsed_s"]:
                    self._ended_at = self._ended_at or clocks.wall_s()
                    self._was_stopped |= line["reason"] not in _ENDED_ITSELF

    def _tell_leg(self, leg: str, elapsed_s: float, variant: str) -> None:
        code, workers = leg[0], leg[1:]
        text = _LEG_TEXT.get(code, leg)
        if workers:
            text += f" with {workers} workers"
        if variant and code in "BV":
            text = f"a trial: {variant}"
        budget = self._options.whole_s
        self._tell(code, text, min(1.0, elapsed_s / budget), max(0.0, budget - elapsed_s))

    def _tell(self, leg: str, text: str, fraction: float, left_s: float | None) -> None:
        if self._on_progress is not None:
            self._on_progress(Progress(leg, text, fraction, left_s))

    @property
    def _signal(self) -> int | None:
        """The first that came and would have ended us."""
        return self._signals[0] if self._signals else None

    # -- reading ----------------------------------------------------------------------------------

    def _profile(self, code: int) -> Profile:
        code = 128 - code if code < 0 else code
        end: End | None = None
        if self._signal is not None:
            end, code = End.INTERRUPTED, 128 + self._signal
        elif code != 0 and self._was_stopped:
            # `except: sys.exit(1)` around the loop, another rank that misses its peer: our doing.
            self._notes.append(f"the script ended with code {code} when it was stopped")
            code = 0
        elif code != 0:
            end = End.CRASHED
        lack = lack_of_room(self._folder)
        if lack is not None:
            self._notes.append(f"what was measured at last is lost: TMPDIR: {lack.strerror}")
        environment = Environment(
            stoker=stoker.__version__,
            python="",
            machine=reading.machine_name(),
            writes=self._writes,
            would_write=tuple(sandbox.would_have_written(self._folder)),
            notes=tuple(self._notes),
        )
        has_loop = bool(trainer_lines.read_trainers(self._folder))
        read = reading.read_profile if has_loop else gap_reading.read_gap_profile
        profile = read(
            self._folder,
            script=self._script,
            end=end,
            exit_code=code,
            host_facts=host_facts(),
            environment=environment,
        )
        if profile is None:
            raise self._no_loop(code) if lack is None else unusable(lack)
        return profile

    def _no_loop(self, code: int) -> ProbeError:
        seen = trainer_lines.total(self._folder, "end", "batches")
        steps = trainer_lines.total(self._folder, "steps-alone", "steps")
        looked_at = "torch.utils.data.DataLoader in every Python process of the run: " + (
            f"{seen} batches, then the run ended" if seen else "no batch was taken from one"
        )
        argv = self._script.argv
        name = next(word for word in argv if word not in ("-m", "--"))
        if self._signal is not None:
            return ProbeError(
                f"interrupted before the training loop of {name} was seen",
                looked_at=looked_at,
                run_next="let it run longer",
                exit_code=128 + self._signal,
            )
        if code != 0:
            return ProbeError(
                f"{name} failed with exit code {code} before its training loop was seen",
                looked_at=looked_at,
                run_next="its own message stands above; run it without stoker first"
                + _elsewhere(argv),
                exit_code=code,
            )
        if steps:
            return NoLoopFound(
                f"{name} was stopped: {steps} optimizer steps, and no batch for them was seen",
                looked_at=looked_at,
                run_next="mark the loop that trains: for batch in stoker.watch(batches)",
            )
        return NoLoopFound(
            f"{name} ran to its end, but no training loop was seen in it",
            looked_at=looked_at,
            run_next=(
                "give the script arguments for a longer run"
                if seen
                else "is it the script that trains? -m MODULE and -- LAUNCHER ... work too; "
                "for batch in stoker.watch(batches) marks a loop without a DataLoader"
            ),
        )


def _elsewhere(argv: tuple[str, ...]) -> str:
    """How a script is started by another Python than ours; nothing for a launcher, with its own."""
    if argv[0] == "--":
        return ""
    named = argv[:2] if argv[0] == "-m" else argv[:1]
    return f"; with another Python: stoker doctor -- PYTHON {shlex.join(named)}"


def _script(target: Target) -> Script:
    """The target as it stands in the record; the hash is of the file that trains."""
    digest = digest_of(target.kind, target.argv)
    argv = as_typed(target.kind, target.argv)
    return Script(argv=argv, cwd=str(Path.cwd()), sha256=digest)
