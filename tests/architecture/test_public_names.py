"""`stoker.__all__` is true: every name in it is there and is documented."""

from __future__ import annotations

import importlib
import inspect

import stoker


def test_every_public_name_can_be_imported() -> None:
    missing = []
    for name in stoker.__all__:
        try:
            getattr(stoker, name)
        except (ImportError, AttributeError) as error:
            missing.append(f"{name}: {error}")
    assert missing == []


def test_every_public_class_and_function_is_documented() -> None:
    bare = [
        name
        for name in stoker.__all__
        if callable(getattr(stoker, name, None)) and not inspect.getdoc(getattr(stoker, name))
    ]
    assert bare == []


def test_every_name_loaded_on_first_use_is_public_and_defined_where_it_is_said_to_be() -> None:
    for name, module in stoker._PUBLIC.items():
        assert name in stoker.__all__
        assert hasattr(importlib.import_module(module), name), f"{module} has no {name}"


def test_public_names_are_listed_once() -> None:
    assert len(stoker.__all__) == len(set(stoker.__all__))


def test_dir_shows_the_public_names() -> None:
    assert set(stoker.__all__) <= set(dir(stoker))
