"""Every Python of a run starts as it would without us: its own sitecustomize, path and code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import stoker
from stoker.probe.attach import Options, Target, examine
from stoker.probe.session import OPTIONS_FILE, ROOT_VARIABLE, SESSION_VARIABLE
from tests.attach.examined import script, watch

ROOT = Path(stoker.__file__).parent
SITE = ROOT / "probe" / "site"


def _python(
    session: Path, code: str, *, pythonpath: str = "", root: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """A Python as the doctor starts it, with a session of its own."""
    session.mkdir(exist_ok=True)
    (session / OPTIONS_FILE).write_text('{"budget_s": 2, "writes": "overlay"}')
    return subprocess.run(
        [sys.executable, "-c", code],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(SITE), pythonpath])),
            SESSION_VARIABLE: str(session),
            ROOT_VARIABLE: str(root),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_the_sitecustomize_that_ours_hides_still_runs_and_is_the_one_to_import(
    tmp_path: Path,
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("print('mine runs')\nvalue = 5\n")

    code = "import sitecustomize; print(sitecustomize.value)"
    done = _python(tmp_path / "session", code, pythonpath=str(own))

    assert (done.stdout, done.stderr) == ("mine runs\n5\n", "")


def test_a_broken_sitecustomize_is_reported_by_python_and_the_probe_starts_all_the_same(
    tmp_path: Path,
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("raise ValueError('mine is broken')")

    code = "import sys; print('stoker.probe.bootstrap' in sys.modules)"
    done = _python(tmp_path / "session", code, pythonpath=str(own))

    assert done.stdout == "True\n"
    assert "mine is broken" in done.stderr


def test_a_python_that_outlives_the_examination_starts_in_silence(tmp_path: Path) -> None:
    session = tmp_path / "session"
    code = (
        "import subprocess, sys, shutil; "
        f"shutil.rmtree({str(session)!r}); "
        "sys.exit(subprocess.call([sys.executable, '-c', 'print(1)']))"
    )
    done = _python(session, code)

    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


def test_a_probe_that_can_t_be_loaded_costs_one_line_and_not_the_script(tmp_path: Path) -> None:
    done = _python(tmp_path / "session", "print('runs')", root=tmp_path / "nowhere")

    assert (done.returncode, done.stdout) == (0, "runs\n")
    assert done.stderr.startswith("stoker: this Python is not watched: ")
    assert len(done.stderr.splitlines()) == 1


def test_a_folder_named_stoker_in_the_path_is_not_taken_for_us(tmp_path: Path) -> None:
    (tmp_path / "path" / "stoker").mkdir(parents=True)

    code = "import stoker; print(stoker.__version__)"
    done = _python(tmp_path / "session", code, pythonpath=str(tmp_path / "path"))

    assert (done.stdout, done.stderr) == (f"{stoker.__version__}\n", "")


def test_a_python_that_never_loads_torch_loads_nothing_heavy_of_ours(tmp_path: Path) -> None:
    code = "import sys; print(sorted(m for m in sys.modules if m.startswith('stoker')))"
    done = _python(tmp_path / "session", code)

    assert done.stdout.strip() == str(
        [
            "stoker",
            "stoker.clocks",
            "stoker.probe",
            "stoker.probe.bootstrap",
            "stoker.probe.importing",
            "stoker.probe.session",
        ]
    )


def test_a_python_that_loads_torch_and_never_trains_writes_nothing_and_exits_as_ever(
    tmp_path: Path,
) -> None:
    session = tmp_path / "session"
    code = (
        "import torch, sys; from torch.utils.data import DataLoader; "
        "print(len([b for b in DataLoader(range(8), batch_size=2)])); sys.exit(4)"
    )
    done = _python(session, code)

    assert (done.returncode, done.stdout, done.stderr) == (4, "4\n", "")
    (lines,) = session.glob("trainer-*.jsonl")
    assert '"kind":"end"' in lines.read_text(), "batches that went by are counted at the end"


@pytest.mark.full
@pytest.mark.usefixtures("in_folder")
def test_a_child_with_a_path_of_its_own_runs_unwatched_and_the_script_is_measured() -> None:
    environment = "dict(os.environ, PYTHONPATH='/nowhere')"
    child = f"subprocess.check_call([sys.executable, '-c', 'import json'], env={environment})"
    Path("train.py").write_text(
        f"import os, runpy, subprocess, sys\n{child}\n"
        f"sys.path.insert(0, {str(Path(script('plain_for.py')).parent)!r})\n"
        f"sys.argv = ['plain_for.py']\n"
        f"runpy.run_path({script('plain_for.py')!r}, run_name='__main__')\n"
    )

    profile = examine(Target("script", ("train.py",)), Options(budget_s=2))

    assert profile.exit_code == 0
    assert "R" in profile.legs


@pytest.mark.usefixtures("in_folder")
def test_the_environment_of_the_doctor_is_as_before_and_the_script_s_is_added_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    before = dict(os.environ)

    watch("ending.py", "three-steps")

    assert dict(os.environ) == before


def test_a_hook_that_breaks_and_can_not_be_noted_breaks_no_import(tmp_path: Path) -> None:
    code = """
from stoker.probe.hooks import watch
from stoker.probe.session import Session

def breaks(*_, **__):
    raise RuntimeError("ours")

watch.install = Session.write_failure = breaks
import stoker.watched
print("goes on")
"""
    done = _python(tmp_path / "session", code)

    assert (done.stdout, done.stderr) == ("goes on\n", "")
