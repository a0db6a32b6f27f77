"""Random records of any kind, made from the types of their fields, so that none is forgotten."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st
from msgspec import inspect

_FINITE = st.floats(allow_nan=False, allow_infinity=False)
_ANY_FLOAT = st.floats()
# What each required number may be besides finite and still come back from JSON as it was.
_UNBOUNDED = {"low": st.just(-math.inf), "high": st.just(math.inf)}
_TEXT = st.text(max_size=12)


def records(kind: type, *, lawful: bool = True) -> st.SearchStrategy[Any]:
    """Records of a kind. lawful=False: any float anywhere, as a bug or an edited file has it."""
    return _of(inspect.type_info(kind), "", lawful)


def _of(kind: inspect.Type, name: str, lawful: bool) -> st.SearchStrategy[Any]:
    match kind:
        case inspect.UnionType():
            inner = [option for option in kind.types if not isinstance(option, inspect.NoneType)]
            if lawful and isinstance(inner[0], inspect.FloatType):
                return st.none() | _FINITE
            return st.none() | _of(inner[0], name, lawful)
        case inspect.FloatType():
            return _FINITE | _UNBOUNDED.get(name, st.just(math.nan)) if lawful else _ANY_FLOAT
        case inspect.IntType():
            return st.integers(-(2**53), 2**53)
        case inspect.BoolType():
            return st.booleans()
        case inspect.StrType():
            return _TEXT
        case inspect.EnumType():
            return st.sampled_from(list(kind.cls))
        case inspect.VarTupleType():
            return st.lists(_of(kind.item_type, name, lawful), max_size=3).map(tuple)
        case inspect.DictType():
            values = _of(kind.value_type, name, lawful)
            return st.dictionaries(_of(kind.key_type, name, lawful), values, max_size=3)
        case inspect.StructType():
            fields = {
                field.name: st.just(field.default)
                if field.name == "schema"
                else _of(field.type, field.name, lawful)
                for field in kind.fields
            }
            return st.fixed_dictionaries(fields).map(lambda values: kind.cls(**values))
        case inspect.AnyType():
            return st.integers(0, 9) | _TEXT
        case _:
            raise TypeError(f"no strategy for {kind!r}: add one")
