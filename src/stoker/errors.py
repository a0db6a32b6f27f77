"""What can go wrong, and the exit code that each kind ends the command with.

StokerError                        exit 1
├─ InputError                      bad flag, path or text: names file, key, found and allowed
├─ PackError
│    ├─ PackVersionError
│    └─ CorruptShardError          shard, block, expected, found
├─ FolderError                     no folder for temporary files can be had
├─ ProbeError                      the examined script failed: its own traceback and exit code
│    └─ NoLoopFound                what was looked for, where, and what points at the loop
└─ LoaderError                     stage and sample id as notes

UsageError (exit 2) is an InputError on the command line itself.
"""

from __future__ import annotations

import traceback

EXIT_OK = 0
EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_INCONCLUSIVE = 3
EXIT_INTERRUPTED = 130


class StokerError(Exception):
    """Anything Stoker refuses or could not do.

    A message has three parts: what happened, what was looked at, and what to run next.
    """

    exit_code: int = EXIT_ERROR

    def __init__(self, happened: str, *, looked_at: str = "", run_next: str = "") -> None:
        super().__init__(happened)
        self.happened = happened
        self.looked_at = looked_at
        self.run_next = run_next

    def __str__(self) -> str:
        lines = [self.happened]
        if self.looked_at:
            lines.append(f"looked at: {self.looked_at}")
        if self.run_next:
            lines.append(f"next: {self.run_next}")
        return "\n".join(lines)


class InputError(StokerError):
    """The user gave something that cannot be used; names file, key, found and allowed values."""


class UsageError(InputError):
    """The command line itself makes no sense."""

    exit_code = EXIT_USAGE


class PackError(StokerError):
    """A pack cannot be written or read."""


class PackVersionError(PackError):
    """A pack was written by a format version that this reader does not know."""


class CorruptShardError(PackError):
    """Bytes of a shard are not the bytes that were written."""


class FolderError(StokerError):
    """What is measured has nowhere to lie: no folder for temporary files, or a full disk."""


class ProbeError(StokerError):
    """The examined script failed; `exit_code` is the script's own."""

    def __init__(
        self, happened: str, *, looked_at: str = "", run_next: str = "", exit_code: int = EXIT_ERROR
    ) -> None:
        super().__init__(happened, looked_at=looked_at, run_next=run_next)
        self.exit_code = exit_code


class NoLoopFound(ProbeError):  # noqa: N818 - it names what was not found
    """The script ran, but no training loop was seen in it."""


class LoaderError(StokerError):
    """A loader stage failed; the stage and the sample are added as notes."""


def place_of(error: BaseException) -> str:
    """File, line and function that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}, in {frames[-1].name}" if frames else ""
