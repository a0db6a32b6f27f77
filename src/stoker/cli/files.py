"""The files that commands pass to each other: a diagnosis is read here, JSON is written here."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from stoker.cli.streams import write_stdout
from stoker.errors import InputError, UsageError

if TYPE_CHECKING:
    from stoker.records.diagnosis import Diagnosis

STDIO = "-"


def read_diagnosis(given: str) -> Diagnosis:
    """The diagnosis in a file, or on stdin for "-".

    Raises InputError for a file that is missing, unreadable, not JSON, of another schema, or has
    an unknown key.
    """
    from stoker.records import codec, diagnosis

    source = "stdin" if given == STDIO else given
    try:
        text = sys.stdin.buffer.read() if given == STDIO else Path(given).read_bytes()
    except OSError as error:
        raise InputError(
            f"{source} cannot be read: {error.strerror}",
            looked_at=source if given == STDIO else str(Path(given).absolute()),
            run_next="stoker doctor --json FILE SCRIPT writes a diagnosis",
        ) from error
    return codec.from_json(text, diagnosis.Diagnosis, source=source, schema=diagnosis.SCHEMA)


def require_apart(json: str, read: Iterable[Path | str | None]) -> None:
    """Raise UsageError where `--json` names one of the files that the command reads itself."""
    for path in read:
        if path is None or not Path(json).is_file() or not Path(path).is_file():
            continue
        if Path(json).samefile(path):
            raise UsageError(
                f"--json {json} would be written over {path}",
                looked_at=str(Path(path).absolute()),
                run_next="give --json a file of its own",
            )


class JsonOutput(NamedTuple):
    """Where `--json FILE|-` goes. A file appears whole or not at all."""

    given: str

    @classmethod
    def checked(cls, given: str) -> JsonOutput:
        """The output, after making sure that it can be written.

        A measurement takes a minute: a path that can't be written is refused before, not after.
        Raises InputError.
        """
        output = cls(given)
        if not output.is_stdout:
            try:
                output._try_out()
            except OSError as error:
                raise output._refused(error) from error
        return output

    @property
    def is_stdout(self) -> bool:
        """True for "-"."""
        return self.given == STDIO

    def write(self, text: str) -> None:
        """Write the text; an existing file is replaced in one step. Raises InputError."""
        if self.is_stdout:
            write_stdout(text, encoding="utf-8")
            return
        try:
            if self._is_special:
                self._path.write_text(text, encoding="utf-8")
            else:
                self._swap_in(text)
        except OSError as error:
            raise self._refused(error) from error

    @property
    def _path(self) -> Path:
        return Path(self.given)

    @property
    def _is_special(self) -> bool:
        """A pipe or a device (/dev/stderr, a process substitution): written to, never replaced."""
        return self._path.exists() and not self._path.is_file()

    @property
    def _target(self) -> Path:
        # Through symbolic links: replacing a link by a file is not what was asked for.
        return self._path.resolve()

    @property
    def _temporary(self) -> Path:
        # Beside the target, because a rename is atomic within one file system only.
        return self._target.with_name(f".{self._target.name}.{os.getpid()}.part")

    def _try_out(self) -> None:
        if self._path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if self._path.exists() and not os.access(self._path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if not self._is_special:
            self._temporary.touch()
            self._temporary.unlink()

    def _swap_in(self, text: str) -> None:
        target, temporary = self._target, self._temporary
        try:
            with temporary.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())  # or a power cut could leave an empty file behind
            if target.exists():
                temporary.chmod(target.stat().st_mode)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)

    def _refused(self, error: OSError) -> InputError:
        return InputError(
            f"--json: {self.given} cannot be written: {error.strerror}",
            looked_at=str(self._path.absolute()),
            run_next="give a file in a directory that you may write to, or - for stdout",
        )


def add_json(parser: Any, text: str) -> None:
    """Declare `--json FILE|-`; `text` is its help."""
    parser.add_argument("--json", type=JsonOutput.checked, metavar="FILE", help=text)


def answer(output: JsonOutput | None, as_json: Callable[[], str], tell: Callable[[], None]) -> None:
    """Write the answer where `--json` sends it; tell it as text unless stdout has it already."""
    if output is not None:
        output.write(as_json())
    if output is None or not output.is_stdout:
        tell()
