"""The folder through which the examined processes tell the parent what they saw.

Every process appends JSON lines to a file of its own; a line is one `os.write`, so whatever
happens to the process, what it had written stays readable. Standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

SESSION_VARIABLE = "STOKER_PROBE_SESSION"
ROOT_VARIABLE = "STOKER_PROBE_ROOT"
TRY_VARIABLE = "STOKER_PROBE_TRY"  # set: remedies are tried in the examined process
OPTIONS_FILE = "options.json"


class LineFile:
    """An append-only file of JSON lines, safe to share over fork."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC, 0o600)

    def write(self, record: dict[str, Any]) -> None:
        """Append one record. Raises OSError where the disk is full."""
        # A number of a library's own kind still is a number to its reader, or says what it is.
        text = json.dumps(record, separators=(",", ":"), default=_plain)
        os.write(self._fd, (text + "\n").encode())


def _plain(value: Any) -> int | float | str:
    if hasattr(value, "__index__"):
        return int(value)
    return float(value) if hasattr(value, "__float__") else repr(value)


class Session:
    """One run of the doctor, seen from an examined process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.options: dict[str, Any] = json.loads((folder / OPTIONS_FILE).read_text())
        self._lines: LineFile | None = None
        self._pid = 0

    @classmethod
    def from_environment(cls) -> Session | None:
        """The session that the parent named in the environment; None when it is over."""
        try:
            return cls(Path(os.environ[SESSION_VARIABLE]))
        except (KeyError, OSError):
            return None

    def write(self, kind: str, **fields: Any) -> None:
        """Append one record to this process's file, which is made on the first call.

        Fails open: what can't be written, on a full disk or after the end, is lost.
        """
        with contextlib.suppress(OSError):
            if self._lines is None or self._pid != os.getpid():
                self._pid = os.getpid()
                self._lines = LineFile(self.folder / f"trainer-{self._pid}.jsonl")
            self._lines.write({"kind": kind, **fields})

    def write_failure(self, what: str, error: BaseException) -> None:
        """Note that something of the probe's own broke, and where."""
        import traceback  # seldom needed, and slow to import

        where = traceback.extract_tb(error.__traceback__)
        place = f" ({Path(where[-1].filename).name}:{where[-1].lineno})" if where else ""
        self.write("note", text=f"{what} failed: {type(error).__name__}: {error}{place}")


def read_lines(path: Path, offset: int = 0) -> tuple[list[dict[str, Any]], int]:
    """The complete records from `offset` on, and the offset behind them.

    A last line without its newline is still being written, or was cut by a kill: it is left. A
    line that was cut in the middle, by a full disk, is passed over.
    """
    with path.open("rb") as file:
        file.seek(offset)
        data = file.read()
    end = data.rfind(b"\n") + 1
    records = []
    for line in data[:end].splitlines():
        try:
            records.append(json.loads(line))
        except ValueError:
            continue
    return records, offset + end
