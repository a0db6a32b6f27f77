"""The commands: names and summaries here, each one's own module loaded only when it is called."""

from __future__ import annotations

import argparse
import importlib
from typing import NamedTuple, Protocol, cast


class Command(Protocol):
    """What the module of a command offers. Its docstring is the text of its help."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare options; may set the parser's usage and epilog."""
        ...

    def run(self, args: argparse.Namespace) -> int:
        """Do it and return the exit code. Raises StokerError for what it refuses."""
        ...


class Entry(NamedTuple):
    """A line of the top-level help. `takes_script`: what follows its options is a script call."""

    name: str
    summary: str
    module: str
    takes_script: bool = False

    def load(self) -> Command:
        """The command's module."""
        return cast(Command, importlib.import_module(self.module))


COMMANDS: tuple[Entry, ...] = (
    Entry(
        "doctor",
        "find out by experiment why the accelerator is idle, and what helps",
        "stoker.cli.doctor",
        takes_script=True,
    ),
    Entry(
        "run",
        "run a script with remedies applied, without a change of it",
        "stoker.cli.run",
        takes_script=True,
    ),
    Entry("storage", "measure the store behind a folder, cold and warm", "stoker.cli.storage"),
    Entry("report", "show a diagnosis again, without measuring", "stoker.cli.report"),
    Entry("pack", "decode a data set once, for reading at the disk's speed", "stoker.cli.pack"),
    Entry("info", "what a pack holds", "stoker.cli.info"),
    Entry("verify", "compare a pack with its checksums", "stoker.cli.verify"),
    Entry("export", "write a pack as WebDataset tars or Arrow streams", "stoker.cli.export"),
    Entry("predict", "forecast a run, measured or from the zoo", "stoker.cli.predict"),
    Entry("plan", "what a host must have to keep its accelerators fed", "stoker.cli.plan"),
    Entry("zoo", "what forecasts assume, every number with its source", "stoker.cli.zoo"),
)
