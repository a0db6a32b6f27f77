"""Reads the zoo: the package's folders first, then the user's, then the working folder's.

A folder holds `machines/ models/ hosts/ storage/ links/ ops/ datasets/ rates/`, each with TOML
files of one table an entry; a later folder's entry replaces an earlier one of the same name. Only
the folders that are asked for are parsed, because TOML is read at about 4 MB/s.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from stoker.errors import InputError
from stoker.records.zoo import (
    Accelerator,
    DataSet,
    Host,
    HostOp,
    Link,
    Model,
    PublishedRate,
    Storage,
)

PACKAGED = Path(__file__).parent
# What a user adds: for every project, and for the project at hand.
USER_FOLDER = Path("~/.config/stoker/zoo")
WORKING_FOLDER = Path("stoker-zoo")

# Keys of an entry that give the provenance of all its numbers.
_PROVENANCE = ("source", "kind", "checked")

R = TypeVar("R", bound=msgspec.Struct)
T = TypeVar("T", Accelerator, Model, Host, Storage, Link, HostOp, DataSet)


def key_of(name: str) -> str:
    """What two spellings of a name share: `NVIDIA A100-SXM4 80GB` and `a100_sxm4_80`."""
    spelled = re.sub(r"[^a-z0-9@.+]", "", name.lower())
    return re.sub(r"^(nvidia|amd|intel|google|aws)(?=.)", "", re.sub(r"gb$", "", spelled))


@cache
def _sourced_fields(kind: type) -> frozenset[str]:
    """Names of the fields of a record that hold a Sourced number (or a table of them)."""
    return frozenset(
        field.name for field in msgspec.structs.fields(kind) if "Sourced" in str(field.type)
    )


def _number(raw: Any, provenance: Mapping[str, str], sources: Mapping[str, str]) -> Any:
    """A plain number takes its entry's provenance; a table may override parts of it."""
    if isinstance(raw, dict) and "value" not in raw:
        return {key: _number(inner, provenance, sources) for key, inner in raw.items()}
    own = raw if isinstance(raw, dict) else {"value": raw}
    made = {**provenance, **own}
    made["source"] = sources.get(made.get("source", ""), made.get("source", ""))
    made["checked"] = str(made.get("checked", ""))
    return made


def _entries(
    path: Path, kind: type[T] | type[PublishedRate]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every table of a file as a plain record, with its numbers' provenance filled in."""
    try:
        tables = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} is not TOML: {error}",
            looked_at=str(path),
            run_next="mend the file; docs/zoo.md shows an entry",
        ) from error
    except OSError as error:
        raise InputError(
            f"{path} can't be read: {error.strerror}",
            looked_at=str(path),
            run_next=f"chmod u+r {path}, or move it away",
        ) from error
    sources = tables.pop("sources", {})
    numbers = _sourced_fields(kind)
    for name, table in tables.items():
        provenance = {key: table.pop(key) for key in _PROVENANCE if key in table}
        yield (
            name,
            {
                key: _number(value, provenance, sources) if key in numbers else value
                for key, value in table.items()
            },
        )


def _record(path: Path, name: str, fields: Mapping[str, Any], kind: type[R]) -> R:
    """A table as its record. Raises InputError with file, entry and key."""
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise InputError(
            f"{path}: '{name}' can't be read: {error}",
            looked_at=f"table [{name}] of {path}",
            run_next="docs/zoo.md lists the keys of an entry",
        ) from error


def _nearest(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name.lower(), [one.lower() for one in known], n=3, cutoff=0.4)
    return ", ".join(close) or ", ".join(sorted(known)[:5]) + ", ..."


class Shelf(Mapping[str, T]):
    """All entries of one kind, by name; `find` also takes aliases and loose spellings."""

    def __init__(self, kind: type[T], what: str, files: Sequence[Path]) -> None:
        self._what = what
        self._by_name: dict[str, T] = {}
        for path in files:
            for name, fields in _entries(path, kind):
                self._by_name[name] = _record(path, name, {"name": name, **fields}, kind)
        self._files = files

    @cached_property
    def _by_key(self) -> dict[str, str]:
        keys = {key_of(alias): n for n, e in self._by_name.items() for alias in e.aliases}
        return keys | {key_of(name): name for name in self._by_name}

    def __getitem__(self, name: str) -> T:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def find(self, name: str) -> T:
        """The entry of a name or alias, however spelled. InputError names the nearest."""
        found = self._by_key.get(key_of(name))
        if found is None:
            shelf = next((file.parent.name for file in self._files), self._what)
            known = sorted({*self._by_name, *(a for e in self.values() for a in e.aliases)})
            raise InputError(
                f"there is no {self._what} '{name}' in the zoo; nearest: {_nearest(name, known)}",
                looked_at=f"{len(self)} entries of {len(self._files)} files",
                run_next=f"stoker zoo {shelf}, or describe it in {WORKING_FOLDER}/ (docs/zoo.md)",
            )
        return self._by_name[found]


class Zoo:
    """The numbers that can be assumed; each shelf is read on first use."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = tuple(folders)

    def _files(self, shelf: str) -> list[Path]:
        return [path for folder in self.folders for path in sorted((folder / shelf).glob("*.toml"))]

    @cached_property
    def machines(self) -> Shelf[Accelerator]:
        """Accelerators."""
        return Shelf(Accelerator, "machine", self._files("machines"))

    @cached_property
    def models(self) -> Shelf[Model]:
        """Models, one entry for each input size."""
        return Shelf(Model, "model", self._files("models"))

    @cached_property
    def hosts(self) -> Shelf[Host]:
        """Hosts with their accelerators."""
        return Shelf(Host, "host", self._files("hosts"))

    @cached_property
    def stores(self) -> Shelf[Storage]:
        """Kinds of storage."""
        return Shelf(Storage, "storage", self._files("storage"))

    @cached_property
    def links(self) -> Shelf[Link]:
        """Links between host and device."""
        return Shelf(Link, "link", self._files("links"))

    @cached_property
    def ops(self) -> Shelf[HostOp]:
        """Host operations and what they cost."""
        return Shelf(HostOp, "op", self._files("ops"))

    @cached_property
    def datasets(self) -> Shelf[DataSet]:
        """Data sets."""
        return Shelf(DataSet, "dataset", self._files("datasets"))

    @cached_property
    def rates(self) -> tuple[PublishedRate, ...]:
        """Published training rates."""
        return tuple(
            _record(path, name, fields, PublishedRate)
            for path in self._files("rates")
            for name, fields in _entries(path, PublishedRate)
        )

    def accelerator(self, name: str) -> Accelerator:
        """An accelerator by name or alias. Raises InputError."""
        return self.machines.find(name)

    def model(self, name: str) -> Model:
        """A model by name or alias; `resnet50` is its default size, `resnet50@176` another."""
        return self.models.find(name)

    def host(self, name: str) -> Host:
        """A host by name or alias. Raises InputError."""
        return self.hosts.find(name)

    def storage(self, name: str) -> Storage:
        """A kind of storage by name or alias. Raises InputError."""
        return self.stores.find(name)

    def link(self, name: str) -> Link:
        """A link by name or alias. Raises InputError."""
        return self.links.find(name)

    def op(self, name: str) -> HostOp:
        """A host operation by name or alias. Raises InputError."""
        return self.ops.find(name)

    def dataset(self, name: str) -> DataSet:
        """A data set by name or alias. Raises InputError."""
        return self.datasets.find(name)


def load_zoo(extra: Sequence[Path] = ()) -> Zoo:
    """The zoo with the user's and the working folder's entries laid over it, then `extra`'s."""
    return Zoo((PACKAGED, *_user_folders(), WORKING_FOLDER, *extra))


def _user_folders() -> list[Path]:
    """The user's, where there is one. A container's user without a name has no home, and behind
    `sudo` HOME may be that of somebody else.
    """
    try:
        folder = USER_FOLDER.expanduser()
        return [folder] if folder.is_dir() else []
    except (RuntimeError, PermissionError):
        return []
