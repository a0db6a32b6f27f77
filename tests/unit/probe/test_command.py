"""The command that starts a target; what is not there is found out without importing it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from stoker.errors import InputError
from stoker.probe.command import command_of, is_there


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    package = tmp_path / "trainer" / "loops"
    package.mkdir(parents=True)
    (tmp_path / "trainer" / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "main.py").write_text("")  # in a package without __init__.py
    (tmp_path / "train.py").write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_each_kind_of_target_is_started_its_own_way(folder: Path) -> None:
    python = sys.executable
    assert command_of("script", ("train.py", "--x")) == [python, "train.py", "--x"]
    assert command_of("module", ("trainer.loops.main",)) == [python, "-m", "trainer.loops.main"]
    assert command_of("launcher", ("bash", "-c", "true")) == ["bash", "-c", "true"]


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("trainer", True),
        ("trainer.loops", True),
        ("trainer.loops.main", True),
        ("trainer.loops.other", False),
        ("train", True),
        ("train.within", False),
        ("nowhere", False),
        ("trainer..loops", False),
        ("", False),
    ],
)
def test_modules_are_looked_up_and_not_imported(folder: Path, name: str, there: bool) -> None:
    assert is_there(name, [str(folder)]) is there


@pytest.mark.parametrize(
    ("kind", "name"), [("script", "gone.py"), ("script", "trainer"), ("module", "gone")]
)
def test_what_is_not_there_is_refused_with_where_was_looked(
    folder: Path, kind: str, name: str
) -> None:
    with pytest.raises(InputError) as refused:
        command_of(kind, (name,))  # type: ignore[arg-type]
    assert name in refused.value.happened
    assert str(folder) in refused.value.looked_at
    assert "stoker doctor" in refused.value.run_next


def test_a_notebook_is_refused_with_how_it_is_made_a_script(folder: Path) -> None:
    (folder / "my train.ipynb").write_text("{}")
    with pytest.raises(InputError, match="is a notebook") as refused:
        command_of("script", ("my train.ipynb",), asked="run")
    assert refused.value.run_next == (
        "jupyter nbconvert --to script 'my train.ipynb', then stoker run 'my train.py'"
    )
