"""The environments of peers that `setup` makes: why one is not there, and programs run in them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.contenders.groups import PACKAGES, Rival
from benchmarks.record import ROOT

FOLDER = ROOT / ".venv-peers"
_LONGEST = 160
# A contender that hangs is stopped after so long beyond what it is asked to run.
PATIENCE_S = 60.0


class Peers:
    """The environments in one folder, and the folder of data that contenders read.

    What a peer has written there in its own format stays for the next run.
    """

    def __init__(self, home: Path, data: Path) -> None:
        self._home = home
        self._data = data
        self._versions: dict[str, str] = {}
        self._written: dict[str, str | None] = {}  # by module: why it could not be

    def why_not(self, rival: Rival) -> str | None:
        """Why a contender can't be run; None where it can, its own format written."""
        if not rival.environment:
            return None
        home = self._home / rival.environment
        why = why_not(home)
        if why is not None:
            return why
        if rival.environment not in self._versions:
            package = PACKAGES[rival.environment]
            asked = f"from importlib.metadata import version; print(version({package!r}))"
            ended = _run([str(home / "bin" / "python"), "-c", asked], PATIENCE_S)
            self._versions[rival.environment] = f" ({package} {ended.stdout.strip()})"
        if rival.module not in self._written:
            self._written[rival.module] = self._write(rival)
        return self._written[rival.module]

    def version(self, rival: Rival) -> str:
        """Package and version of a peer, in brackets; empty for what is none."""
        return self._versions.get(rival.environment, "")

    def told(
        self, rival: Rival, *numbers: float, limit_s: float, program: str = "one"
    ) -> tuple[str, str | None]:
        """What a contender's program printed for these numbers, and why it failed."""
        words = [rival.name, str(self._data), *map(str, numbers)]
        return self._called(rival, words, limit_s, program)

    def _write(self, rival: Rival) -> str | None:
        """Let a peer write its own format, once for a folder of data."""
        made = self._data / f".made-{rival.module}"
        source = ROOT / "benchmarks" / "contenders" / f"{rival.module}.py"
        if made.exists() or "\ndef write(" not in source.read_text():
            return None
        _, why = self._called(rival, ["--write", str(self._data)], 10 * PATIENCE_S, "one")
        if why is None:
            made.touch()
        return why

    def _called(
        self, rival: Rival, words: list[str], limit_s: float, program: str
    ) -> tuple[str, str | None]:
        home = self._home / rival.environment / "bin" / "python"
        python = str(home) if rival.environment else sys.executable
        command = [python, "-m", f"benchmarks.contenders.{program}", rival.module, *words]
        try:
            ended = _run(command, limit_s)
        except subprocess.TimeoutExpired:
            return "", f"no answer within {limit_s:g} s"
        if ended.returncode:
            sys.stderr.write(ended.stderr[-3000:])
            said = ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"]
            return "", short(said[-1])
        return ended.stdout, None


def why_not(home: Path) -> str | None:
    """Why a peer can't be run; None where its environment is whole."""
    if (home / "failed").exists():
        return f"not installed: {short((home / 'failed').read_text())}"
    if not (home / ".done").exists():
        return "not installed: run benchmarks/contenders/setup"
    return None


def short(text: str) -> str:
    """A reason that a table has room for."""
    return " ".join(text.split())[:_LONGEST]


def _run(command: list[str], limit_s: float) -> subprocess.CompletedProcess[str]:
    # The emulated accelerator runs in environments without Stoker too: it needs Python alone.
    paths = [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    quiet = {
        **os.environ,
        "TF_CPP_MIN_LOG_LEVEL": "3",  # else TensorFlow's hints hide an error
        "PYTHONPATH": os.pathsep.join(paths),
    }
    return subprocess.run(
        command,
        cwd=ROOT,
        env=quiet,
        check=False,
        capture_output=True,
        text=True,
        timeout=limit_s,
    )
