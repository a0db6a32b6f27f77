"""`import stoker` is cheap: it loads nothing heavy, and almost nothing at all."""

from __future__ import annotations

import subprocess
import sys
import time

# Interleaved, and the best of each: what else the machine does can only add to a run.
ROUNDS = 7
ALLOWED_S = 0.050


def _seconds(code: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - started


def test_importing_stoker_adds_less_than_50_ms_to_starting_python() -> None:
    plain, with_stoker = [], []
    for _ in range(ROUNDS):
        plain.append(_seconds("pass"))
        with_stoker.append(_seconds("import stoker"))
    assert min(with_stoker) - min(plain) < ALLOWED_S


def test_importing_stoker_loads_no_library_beside_the_standard_one() -> None:
    code = (
        "import sys; before = set(sys.modules); import stoker; "
        "print(*{name.partition('.')[0] for name in set(sys.modules) - before})"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout
    foreign = set(printed.split()) - set(sys.stdlib_module_names) - {"stoker"}
    assert foreign == set()


def test_augment_is_a_module_by_its_own_name_and_loads_torch_only_then() -> None:
    code = (
        "import sys, stoker; assert 'torch' not in sys.modules; import stoker.augment; "
        "from stoker import augment; assert augment is stoker.augment and augment.Recipe"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
