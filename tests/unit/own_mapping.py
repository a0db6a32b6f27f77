"""A batch class as scripts write them: a mapping that is no dict."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any


class Own(MutableMapping[str, Any]):
    """A mapping of a script's own, over a dict that it keeps."""

    def __init__(self, **items: Any) -> None:
        self._items = items

    def __getitem__(self, key: str) -> Any:
        return self._items[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._items[key] = value

    def __delitem__(self, key: str) -> None:
        del self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)
