"""The guard of tests/conftest.py really fails a test that leaves something behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"

LEAKS = {
    "thread": (
        "import threading\ndef test_leaks():\n"
        "    threading.Thread(target=threading.Event().wait, name='left', daemon=True).start()\n",
        "thread 'left' is still alive",
    ),
    "environment": (
        "import os\ndef test_leaks():\n    os.environ['LEFT'] = 'behind'\n",
        "environment variable LEFT: was None, is 'behind'",
    ),
    "import hook": (
        "import sys\nclass Left: pass\ndef test_leaks():\n    sys.meta_path.append(Left)\n",
        "sys.meta_path changed",
    ),
    "shared memory": (
        "import os\ndef test_leaks():\n"
        "    open(f'/dev/shm/stoker-leak-test-{os.getppid()}', 'w').close()\n",
        "was left behind",
    ),
}


@pytest.mark.parametrize("kind", LEAKS)
def test_a_test_that_leaves_something_behind_fails_and_is_told_what(
    kind: str, tmp_path: Path
) -> None:
    body, message = LEAKS[kind]
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text())
    (tmp_path / "test_leak.py").write_text(body)
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    Path(f"/dev/shm/stoker-leak-test-{os.getpid()}").unlink(missing_ok=True)
    assert ended.returncode == 1, ended.stdout
    assert message in ended.stdout
