"""What `--apply` asks for: names with values, read and checked before anything is started.

Refuses what is unknown, malformed or contradictory. Standard library only.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import Path

from stoker.errors import UsageError

AUTO = "auto"

# How a remedy's value is written; an optional one may be left out.
_COUNT, _MAYBE_COUNT, _NOTHING, _SIZE, _PLACE = "N", "[N]", "", "SIZE", "DIR:SIZE"
_FOLDER = "DIR"

VALUES = {
    "overlap": _MAYBE_COUNT,
    "workers": _COUNT,
    "persistent-workers": _NOTHING,
    "prefetch-depth": _COUNT,
    "unordered": _NOTHING,
    "pinned-async": _NOTHING,
    "native-threads": _MAYBE_COUNT,
    "restore-affinity": _NOTHING,
    "allocator": _NOTHING,
    "cache-ram": _SIZE,
    "cache-local": _PLACE,
    "pack": _FOLDER,
}
# Other words for the same; the fix that a diagnosis calls fewer-workers is a number of workers.
_ALIASES = {"prefetch": "prefetch-depth", "fewer-workers": "workers"}
_FACTORS = {
    "": 1,
    **{unit: 10**power for unit, power in (("KB", 3), ("MB", 6), ("GB", 9), ("TB", 12))},
    **{unit: 2**power for unit, power in (("KIB", 10), ("MIB", 20), ("GIB", 30), ("TIB", 40))},
}
# Of workers, threads or batches; of bytes, what the largest disks don't hold.
_MOST, _MOST_BYTES = 9999, 1e18
# Without worker processes there is nothing for these to work on.
_NEED_WORKERS = (
    *("persistent-workers", "prefetch-depth", "unordered"),
    *("native-threads", "restore-affinity", "allocator"),
)


@dataclass(frozen=True)
class Request:
    """One remedy asked for: `count` of workers, batches, threads or bytes, as its name has it."""

    name: str
    count: int | None = None
    folder: str | None = None

    def __str__(self) -> str:
        if self.folder is not None and self.count is None:
            return f"{self.name}={self.folder}"
        if self.folder is not None:
            return f"{self.name}={self.folder}:{size_text(self.count or 0)}"
        if self.count is None:
            return self.name
        value = size_text(self.count) if VALUES[self.name] == _SIZE else str(self.count)
        return f"{self.name}={value}"


def size_text(count: int) -> str:
    """Bytes as they are written for --apply: 4GB, 1500MB, 12KB."""
    for unit in ("TB", "GB", "MB", "KB"):
        if count and count % _FACTORS[unit] == 0:
            return f"{count // _FACTORS[unit]}{unit}"
    return str(count)


def parse(text: str) -> tuple[Request, ...]:
    """The remedies of `--apply LIST`, in its order; () for "auto". Raises UsageError."""
    if text.strip() == AUTO:
        return ()
    words = [word.strip() for word in text.split(",")]
    if not any(words):
        raise _wrong(text, "names no remedy")
    if AUTO in words:
        raise _wrong(text, "auto chooses by itself: it stands alone")
    requests = tuple(_one(text, word) for word in words if word)
    _contradictions(text, requests)
    return requests


def _one(text: str, word: str) -> Request:
    name, equals, value = word.partition("=")
    name = _ALIASES.get(name, name)
    if name not in VALUES:
        near = difflib.get_close_matches(name, VALUES, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise _wrong(text, f"{name!r} is no remedy{hint}")
    form = VALUES[name]
    if form in (_NOTHING, _MAYBE_COUNT) and not equals:
        return Request(name)
    if form == _NOTHING:
        raise _wrong(text, f"{name} takes no value")
    if not value:
        raise _wrong(text, f"{name} needs a value: {name}={form}")
    if form in (_COUNT, _MAYBE_COUNT):
        return Request(name, _count(text, name, value))
    if form == _SIZE:
        return Request(name, _bytes(text, name, value))
    if form == _FOLDER:
        return Request(name, folder=str(Path(value).absolute()))
    folder, colon, size = value.rpartition(":")
    if not folder:
        raise _wrong(text, f"{word!r} has no {'folder' if colon else 'size'}: {name}={form}")
    return Request(name, _bytes(text, name, size), str(Path(folder).absolute()))


def _count(text: str, name: str, value: str) -> int:
    if not value.isdecimal() or (value.strip("0") == "" and name != "workers"):
        raise _wrong(text, f"{name}={value!r} is not a count")
    if len(value.lstrip("0")) > len(str(_MOST)) or int(value) > _MOST:
        raise _wrong(text, f"{name}={value} is more than any machine has: at most {_MOST}")
    return int(value)


def _bytes(text: str, name: str, value: str) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]I?B)?", value.strip().upper())
    size = 0.0 if found is None else float(found[1]) * _FACTORS[found[2] or ""]
    if not 1 <= size <= _MOST_BYTES:
        raise _wrong(text, f"{name}: {value!r} is not a size such as 4GB or 500MB")
    return int(size)


def _contradictions(text: str, requests: tuple[Request, ...]) -> None:
    by_name: dict[str, Request] = {}
    for request in requests:
        if request.name in by_name:
            raise _wrong(text, f"{request.name} is named twice")
        by_name[request.name] = request
    workers = by_name.get("workers")
    overlap = by_name.get("overlap")
    if workers is not None and workers.count == 0:
        for name in ("overlap", *_NEED_WORKERS):
            if name in by_name:
                raise _wrong(text, f"{name} needs workers, and workers=0 takes them away")
    if workers is not None and overlap is not None and overlap.count not in (None, workers.count):
        raise _wrong(text, f"{overlap} and {workers} are two numbers of workers")
    for one in (workers, overlap):
        if one is not None and one.count == 1 and "unordered" in by_name:
            raise _wrong(text, f"unordered needs two workers or more, and {one} gives one order")


def _wrong(text: str, problem: str) -> UsageError:
    known = ", ".join(f"{name}={form}" if form else name for name, form in VALUES.items())
    return UsageError(
        f"--apply: {problem}",
        looked_at=f"--apply {text}",
        run_next=f"allowed are auto, or with commas: {known.replace('=[N]', '[=N]')}",
    )
