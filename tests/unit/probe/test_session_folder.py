"""What owners that were killed have left is cleared by the next one, and nothing else is."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stoker import lifetime
from stoker.errors import FolderError
from stoker.probe import session_folder as module
from stoker.probe.session import SESSION_VARIABLE
from stoker.probe.session_folder import OWNER_FILE, clear_left, lack_of_room, session_folder


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def ended() -> int:
    """The id of a process that has ended."""
    with subprocess.Popen(["true"]) as process:
        pass
    return process.pid


def left(**changes: Any) -> Path:
    """The folder of an owner that was killed, with a file of its script's in it."""
    folder = module._made()
    owner = json.loads((folder / OWNER_FILE).read_text())
    (folder / OWNER_FILE).write_text(json.dumps(owner | {"pid": ended()} | changes))
    (folder / "tmp").mkdir()
    (folder / "tmp" / "half a batch").touch()
    return folder


def test_a_folder_says_whose_it_is_and_goes_at_the_end(temporary: Path) -> None:
    with session_folder() as folder:
        owner = json.loads((folder / OWNER_FILE).read_text())
        assert owner["pid"] == os.getpid() and lifetime.began(os.getpid()) == owner["began"]
        clear_left()  # another starter comes by
        assert folder.is_dir()
    assert list(temporary.iterdir()) == []


def test_the_next_one_clears_what_killed_owners_have_left(temporary: Path) -> None:
    folders = [left(), left(pid=os.getpid(), began=-1)]  # the number is another process's by now
    with session_folder() as folder:
        assert list(temporary.iterdir()) == [folder]
    assert not any(one.exists() for one in folders)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"pid": os.getpid(), "began": lifetime.began(os.getpid())}, id="it lives"),
        pytest.param({"pid": os.getpid(), "began": None}, id="it lives, since nobody knows when"),
        pytest.param({"world": ["another boot"]}, id="of another machine"),
        pytest.param({"world": []}, id="of a machine that is not known"),
    ],
)
def test_what_may_be_in_use_stays(changes: dict[str, Any]) -> None:
    folder = left(**changes)
    clear_left()
    assert (folder / "tmp" / "half a batch").exists()


def _of_another_user(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)


def _without_an_owner(folder: Path, _: pytest.MonkeyPatch) -> None:
    (folder / OWNER_FILE).unlink()


def _damaged(folder: Path, _: pytest.MonkeyPatch) -> None:
    (folder / OWNER_FILE).write_text("{")


def _linked(folder: Path, _: pytest.MonkeyPatch) -> None:
    elsewhere = folder.parents[1] / "elsewhere"
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere)


@pytest.mark.parametrize("change", [_of_another_user, _without_an_owner, _damaged, _linked])
def test_what_is_not_surely_ours_stays(
    change: Callable[[Path, pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, own = left(), left()
    change(folder, monkeypatch)
    clear_left()
    assert (folder / "tmp" / "half a batch").exists()
    assert own.exists() is (change is _of_another_user), "one that stays keeps no other"


def test_what_a_process_of_the_script_still_uses_stays_as_long_as_it_lives() -> None:
    folder = left()
    with subprocess.Popen(["sleep", "30"], env={SESSION_VARIABLE: str(folder)}) as process:
        clear_left()
        assert folder.exists()
        process.kill()
    clear_left()
    assert not folder.exists()


def test_one_starter_clears_and_another_passes_by() -> None:
    folder = left()
    with (folder / OWNER_FILE).open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        clear_left()
        assert (folder / "tmp").exists()
    clear_left()
    assert not folder.exists()


def test_starters_at_once_clear_all_together(temporary: Path) -> None:
    for _ in range(10):
        left()
    starters = [threading.Thread(target=clear_left) for _ in range(4)]
    for starter in starters:
        starter.start()
    for starter in starters:
        starter.join()
    assert list(temporary.iterdir()) == []


def test_what_a_killed_starter_has_not_cleared_the_next_one_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = left()
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", lambda *_, **__: None)  # it comes no further
        clear_left()
    assert (folder / OWNER_FILE).exists()
    clear_left()
    assert not folder.exists()


def test_where_no_folder_can_be_made_it_says_what_to_do(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary.rmdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    with pytest.raises(FolderError, match="No such file or directory") as refused, session_folder():
        pass
    assert refused.value.looked_at == f"TMPDIR={temporary}"
    assert "set TMPDIR" in refused.value.run_next


def _full(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_on_a_full_disk_it_says_so_and_leaves_nothing(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "write_text", _full)
    with pytest.raises(FolderError, match="No space left on device"), session_folder():
        pass
    assert list(temporary.iterdir()) == []


def test_a_disk_that_has_filled_up_is_seen(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lack_of_room(temporary) is None
    assert list(temporary.iterdir()) == []
    monkeypatch.setattr(tempfile, "TemporaryFile", _full)
    found = lack_of_room(temporary)
    assert found is not None and found.errno == errno.ENOSPC
