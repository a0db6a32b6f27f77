"""Records to and from JSON text; what cannot be read names the file, the key and what is allowed.

JSON has no infinity and no NaN. They are written as null and come back by the place where they
stood: the `low` of an interval as −inf, its `high` as inf, any other required number as NaN. An
optional number that isn't finite comes back as None: it wasn't known either way.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from stoker.errors import InputError

T = TypeVar("T")

_WRITER = "stoker doctor --json FILE SCRIPT writes such a file"
_EDITED = f"{_WRITER}; was this one edited, or written by another version of stoker?"


def to_json(record: Any) -> str:
    """The record (or a dict or list of records) as indented JSON text, ending in a newline."""
    try:
        raw = msgspec.json.encode(record)
    except UnicodeEncodeError:
        raw = msgspec.json.encode(_encodable(msgspec.to_builtins(record)))
    return msgspec.json.format(raw, indent=1).decode() + "\n"


def from_json(text: str | bytes, kind: type[T], *, source: str, schema: str) -> T:
    """Read a record back.

    `source` is the file's name for messages, `schema` the value that the record's "schema" key
    must have. Raises InputError for text that isn't JSON, another schema, an unknown key, a
    missing key or a value of the wrong type.
    """
    data = _decoded(text, source)
    found = data.get("schema") if isinstance(data, dict) else None
    if found != schema:
        raise InputError(
            f"{source}: key 'schema' is {found!r}, allowed is {schema!r}",
            looked_at=f"{source}, which is {_shape(data)}",
            run_next=_WRITER,
        )
    try:
        return msgspec.convert(_restored(data, inspect.type_info(kind), ""), kind)
    except _RefusedError as refused:
        problem = str(refused)
        cause: Exception = refused
    except msgspec.ValidationError as error:
        problem = _plain(str(error))
        cause = error
    raise InputError(
        f"{source}: {problem}", looked_at=f"{source} as {schema}", run_next=_EDITED
    ) from cause


class _RefusedError(Exception):
    """A key or a value that the record doesn't know; the text names it and what is allowed."""


def _encodable(value: Any) -> Any:
    """File names need not be UTF-8: the bytes that python holds as surrogates are spelled out."""
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case list() | tuple():
            return [_encodable(inner) for inner in value]
        case dict():
            return {_encodable(key): _encodable(inner) for key, inner in value.items()}
        case _:
            return value


def _decoded(text: str | bytes, source: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(
            f"{source} is not JSON: {error}",
            looked_at=f"{len(text):,} {'bytes' if isinstance(text, bytes) else 'characters'} "
            f"of {source}",
            run_next=_WRITER,
        ) from error


def _shape(data: Any) -> str:
    """What a file without the wanted schema holds, so that a mix-up is seen at once."""
    if isinstance(data, dict):
        keys = sorted(data)
        more = ", …" if len(keys) > 4 else ""
        return f"an object with the keys {', '.join(keys[:4])}{more}" if keys else "an empty object"
    names = {list: "a list", str: "a text", bool: "a truth value", type(None): "null"}
    return names.get(type(data), "a number")


def _restored(value: Any, kind: inspect.Type, path: str) -> Any:
    """`value` with the non-finite numbers back in it; refuses unknown keys and enum values.

    Wrong shapes are left alone: the conversion that follows names them.
    """
    match kind:
        case inspect.UnionType():
            # Unions in records are `X | None`: only X can hold anything to restore.
            inner = [option for option in kind.types if not isinstance(option, inspect.NoneType)]
            return value if value is None else _restored(value, inner[0], path)
        case inspect.FloatType() if value is None:
            name = path.rpartition(".")[2]
            return {"low": -math.inf, "high": math.inf}.get(name, math.nan)
        case inspect.EnumType():
            return _known_member(value, kind.cls, path)
        case inspect.StructType() if isinstance(value, dict):
            fields = {field.encode_name: field.type for field in kind.fields}
            return {
                key: _restored(inner, _field_type(fields, key, path), _join(path, key))
                for key, inner in value.items()
            }
        case inspect.DictType() if isinstance(value, dict):
            return {
                key: _restored(inner, kind.value_type, _join(path, key))
                for key, inner in value.items()
            }
        case inspect.VarTupleType() | inspect.ListType() if isinstance(value, list):
            return [
                _restored(inner, kind.item_type, f"{path}[{index}]")
                for index, inner in enumerate(value)
            ]
        case _:
            return value


def _field_type(fields: Mapping[str, inspect.Type], key: str, path: str) -> inspect.Type:
    if key in fields:
        return fields[key]
    near = difflib.get_close_matches(key, fields, n=1)
    hint = f", the nearest known key is {near[0]!r}" if near else ""
    raise _RefusedError(f"key {_join(path, key)!r} is unknown{hint}")


def _known_member(value: Any, members: type[Enum], path: str) -> Any:
    allowed = [member.value for member in members]
    if isinstance(value, str) and value not in allowed:
        raise _RefusedError(
            f"key {path!r} is {value!r}, allowed are {', '.join(map(str, allowed))}"
        )
    return value


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _plain(message: str) -> str:
    """msgspec's message with the path in front: "key 'host.cores_owned': Expected `float`, …"."""
    match = re.fullmatch(r"(.*?) - at `\$(.*)`", message, re.DOTALL)
    if match is None:
        return message
    return f"key {match.group(2).lstrip('.')!r}: {match.group(1)}"
