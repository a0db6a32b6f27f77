"""The post-import hook: calls back once, after the module is there, and leaves no trace on it."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from stoker.probe.importing import ImportWatch


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in the path; what is imported from it is forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.fixture
def watch() -> Iterator[ImportWatch]:
    watching = ImportWatch()
    watching.install()
    yield watching
    watching.remove()


def test_the_callback_comes_once_and_after_the_module_was_run(
    modules: Path, watch: ImportWatch
) -> None:
    (modules / "plain_one.py").write_text("value = 5")
    seen: list[int] = []
    watch.after("plain_one", lambda module: seen.append(module.value))

    importlib.import_module("plain_one")
    importlib.import_module("plain_one")
    importlib.reload(sys.modules["plain_one"])

    assert seen == [5]


def test_the_module_keeps_its_own_loader(modules: Path, watch: ImportWatch) -> None:
    (modules / "plain_two.py").write_text("seen_within = type(__loader__).__name__")
    watch.after("plain_two", lambda module: None)

    module = importlib.import_module("plain_two")

    assert module.seen_within == "SourceFileLoader"
    assert type(module.__loader__).__name__ == "SourceFileLoader"
    assert module.__spec__ is not None
    assert type(module.__spec__.loader).__name__ == "SourceFileLoader"
    assert module.__spec__.loader.get_source("plain_two")  # type: ignore[union-attr]


def test_packages_and_their_modules_are_watched(modules: Path, watch: ImportWatch) -> None:
    package = modules / "a_package"
    package.mkdir()
    (package / "__init__.py").write_text("from a_package.inner import value")
    (package / "inner.py").write_text("value = 1")
    seen: list[str] = []
    for name in ("a_package", "a_package.inner"):
        watch.after(name, lambda module: seen.append(module.__name__))

    importlib.import_module("a_package")

    assert seen == ["a_package.inner", "a_package"]


def test_a_module_that_is_there_already_is_called_back_at_once(watch: ImportWatch) -> None:
    seen: list[ModuleType] = []
    watch.after("json", seen.append)
    assert seen == [sys.modules["json"]]


def test_a_failed_import_leaves_the_callback_waiting(modules: Path, watch: ImportWatch) -> None:
    source = modules / "late_module.py"
    source.write_text("raise RuntimeError('not today')")
    seen: list[ModuleType] = []
    watch.after("late_module", seen.append)

    with pytest.raises(RuntimeError, match="not today"):
        importlib.import_module("late_module")
    assert seen == []
    source.write_text("value = 1  # of another size than before")
    importlib.import_module("late_module")

    assert len(seen) == 1


def test_asking_whether_a_module_is_there_leaves_the_callback_waiting(
    modules: Path, watch: ImportWatch
) -> None:
    (modules / "asked_for.py").write_text("value = 1")
    seen: list[ModuleType] = []
    watch.after("asked_for", seen.append)

    spec = importlib.util.find_spec("asked_for")
    assert spec is not None
    assert spec.loader.get_filename("asked_for").endswith("asked_for.py")  # type: ignore[union-attr]
    assert seen == []

    importlib.import_module("asked_for")
    assert len(seen) == 1


def test_a_module_that_nobody_has_is_not_found_as_without_us(watch: ImportWatch) -> None:
    watch.after("no_such_module_at_all", lambda module: None)

    assert importlib.util.find_spec("no_such_module_at_all") is None
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("no_such_module_at_all")


def test_two_watches_of_one_module_both_call_back(modules: Path, watch: ImportWatch) -> None:
    (modules / "shared_one.py").write_text("value = 1")
    other = ImportWatch()
    other.install()
    seen: list[str] = []
    watch.after("shared_one", lambda module: seen.append("first"))
    other.after("shared_one", lambda module: seen.append("second"))

    try:
        module = importlib.import_module("shared_one")
    finally:
        other.remove()

    assert sorted(seen) == ["first", "second"]
    assert type(module.__loader__).__name__ == "SourceFileLoader"


def test_a_callback_that_raises_is_told_and_the_import_goes_on(modules: Path) -> None:
    (modules / "hooked_one.py").write_text("value = 1")
    told: list[tuple[str, str]] = []
    watching = ImportWatch(lambda name, error: told.append((name, str(error))))
    watching.install()

    def fail(module: ModuleType) -> None:
        raise ValueError("the hook is broken")

    watching.after("hooked_one", fail)
    try:
        assert importlib.import_module("hooked_one").value == 1
    finally:
        watching.remove()

    assert told == [("hooked_one", "the hook is broken")]


def test_a_loader_of_the_old_kind_is_left_alone(
    watch: ImportWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Old:
        def load_module(self, name: str) -> ModuleType:
            return ModuleType(name)

    class Finder:
        def find_spec(self, name: str, path: object, target: object = None) -> object:
            if name != "of_old":
                return None
            return importlib.machinery.ModuleSpec(name, Old())  # type: ignore[arg-type]

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder()])
    watch.after("of_old", lambda module: None)

    spec = importlib.util.find_spec("of_old")

    assert spec is not None
    assert isinstance(spec.loader, Old)
