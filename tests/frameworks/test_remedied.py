"""`stoker run` under each training library: the same data and weights, told and undone as ever.

The libraries' ordinary scripts, in the environment of the framework tests, which has no stoker.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.attach.remedied import SLOW_S
from tests.attach.remedied import environment as under_orders
from tests.frameworks.conftest import PYTHON, SCRIPTS, TIMEOUT_S

LIBRARIES = ("plain_loop", "lightning_trainer", "transformers_trainer", "accelerate_loop")
# Twelve batches an epoch; a sample costs next to nothing.
SHORT = ("--samples", "96", "--epochs", "3")
EPOCH = 12

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("environment")]


@dataclass(frozen=True)
class Ended:
    """What a script has printed, and the accounts of its loaders."""

    stdout: str
    stderr: str
    code: int
    accounts: list[dict[str, Any]]

    @property
    def weights(self) -> str:
        """The last line: a hash of the trained weights."""
        return self.stdout.rstrip().splitlines()[-1]

    @property
    def account(self) -> dict[str, Any]:
        """That of the training loader, which is the only one that has one."""
        (account,) = self.accounts
        return account


def ran(command: list[str], folder: Path, variables: dict[str, str] | None = None) -> Ended:
    ended = subprocess.run(
        command,
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    account = folder / "account.json"
    record = json.loads(account.read_text()) if account.exists() else {"loaders": []}
    return Ended(ended.stdout, ended.stderr, ended.returncode, record["loaders"])


def command_of(library: str, *arguments: str) -> list[str]:
    return [str(PYTHON), str(SCRIPTS / f"{library}.py"), *arguments]


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Runs a library's script by itself, once for the same arguments."""

    @cache
    def run(library: str, *arguments: str) -> Ended:
        ended = ran(command_of(library, *arguments), tmp_path_factory.mktemp(library))
        assert ended.code == 0, ended.stderr
        assert ended.weights.startswith("weights ")
        return ended

    return run


@pytest.fixture
def remedied(tmp_path: Path) -> Any:
    """Runs a library's script with remedies that are applied as soon as they may, and kept."""

    def run(library: str, remedies: str, *arguments: str) -> Ended:
        orders = under_orders(
            remedies, tmp_path / "account.json", baseline_s=SLOW_S, checked_batches=3
        )
        return ran(command_of(library, *arguments), tmp_path, orders)

    return run


@pytest.fixture
def by_command(tmp_path: Path) -> Any:
    """Runs a library's script by `stoker run`."""

    def run(library: str, remedies: str, *arguments: str) -> Ended:
        options = ("--trial", "0.3", "--certify", "3", "--json", "account.json")
        stoker = [sys.executable, "-m", "stoker", "run", *options, "--apply", remedies, "--"]
        return ran([*stoker, *command_of(library, *arguments)], tmp_path)

    return run


@pytest.mark.parametrize(
    ("remedies", "workers"),
    [
        ("overlap=2,persistent-workers,prefetch-depth=4,native-threads,allocator", ()),
        ("cache-ram=50MB", ()),
        ("workers=2,persistent-workers", ("--workers", "1")),
        ("prefetch-depth=4", ("--workers", "1", "--persistent")),
        ("workers=0", ("--workers", "1")),
    ],
)
@pytest.mark.parametrize("library", LIBRARIES)
def test_the_weights_are_the_same_bit_for_bit(
    library: str, remedies: str, workers: tuple[str, ...], remedied: Any, plain: Any
) -> None:
    ended = remedied(library, remedies, *SHORT, *workers)
    assert ended.code == 0, ended.stderr
    # Workers that live on take one base seed from the random stream, others one an epoch.
    own = workers if "--persistent" in workers else ()
    assert ended.weights == plain(library, *SHORT, *own).weights
    assert ended.account["refused"] == []
    assert ended.account["rolled_back"] is None
    assert ended.account["notes"] == []
    assert ended.account["certificate"].startswith("3 batches compared")
    assert ended.account["certificate"].endswith("the same bytes")
    # All but a few steps of the first epoch, and those with which an epoch begins. A library that
    # gathers two batches for a step may end with one that is not counted.
    assert ended.account["steps"]["remedied"] >= 2 * (EPOCH - 1) - 1, ended.account["steps"]
    assert ended.account["steps"]["own"] <= 4


@pytest.mark.parametrize("library", LIBRARIES)
def test_remedies_are_tried_told_and_refused(library: str, by_command: Any, plain: Any) -> None:
    arguments = ("--samples", "320", "--epochs", "2", "--sample-ms", "4")
    ended = by_command(library, "overlap=2,pinned-async", *arguments)
    assert ended.code == 0, ended.stderr
    assert ended.weights == plain(library, *arguments).weights
    assert "stoker run:" not in ended.stdout
    account = ended.account
    assert [one["remedy"] for one in account["applied"]] == ["overlap=2"]
    assert [one["reason"] for one in account["refused"]] == [
        "the model lives on the host: nothing is copied"
    ]
    # Whether they help is a matter of the machine; that both ways were measured is not.
    assert min(account["steps"].values()) >= 12, account["steps"]
    assert account["kept"] is (account["rolled_back"] is None)
    assert "overlap=2: 2 workers in place of none (same samples, same order" in ended.stderr
    assert "stoker run: overlap=2: " in ended.stderr.rpartition("2 workers")[2]  # the summary
    assert "data: 3 batches compared with the script's own way" in ended.stderr
    assert account["certificate"].endswith("the same bytes")


@pytest.mark.parametrize("library", LIBRARIES)
def test_files_are_read_through_their_copies(
    library: str, remedied: Any, plain: Any, tmp_path: Path
) -> None:
    folder, copies = tmp_path / "tokens", tmp_path / "copies"
    folder.mkdir()
    for index in range(96):
        tokens = np.random.default_rng(index).integers(0, 64, 16)
        (folder / str(index)).write_bytes(tokens.astype(np.int64).tobytes())
    arguments = (*SHORT, "--folder", str(folder))
    ended = remedied(library, f"overlap=2,cache-local={copies}:1MB", *arguments)
    assert ended.code == 0, ended.stderr
    assert ended.weights == plain(library, *arguments).weights
    assert ended.account["rolled_back"] is None
    assert len(list(copies.glob("??/*"))) > 80  # some were read before the remedies began


@pytest.fixture(scope="session")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The training set of SHORT, packed."""
    folder = tmp_path_factory.mktemp("pack") / "packed"
    source = f"{SCRIPTS / 'data.py'}:packable"
    command = [sys.executable, "-m", "stoker", "pack", source, str(folder), "--quiet"]
    subprocess.run(command, check=True, timeout=TIMEOUT_S)
    return folder


@pytest.mark.parametrize("library", LIBRARIES)
def test_samples_come_out_of_a_pack(library: str, remedied: Any, plain: Any, pack: Path) -> None:
    ended = remedied(library, f"pack={pack}", *SHORT)
    assert ended.code == 0, ended.stderr
    assert ended.weights == plain(library, *SHORT).weights
    assert [one["remedy"] for one in ended.account["applied"]] == [f"pack={pack}"]
    assert ended.account["rolled_back"] is None
    assert ended.account["notes"] == []
    assert ended.account["steps"]["remedied"] >= 2 * (EPOCH - 1) - 1


@pytest.mark.parametrize("library", LIBRARIES)
def test_what_fails_in_workers_is_rolled_back(library: str, remedied: Any, plain: Any) -> None:
    ended = remedied(library, "overlap=2", *SHORT, "--fails-in-workers")
    assert ended.code == 0, ended.stderr
    assert ended.weights == plain(library, *SHORT).weights
    assert "this handle does not work in a worker" in ended.account["rolled_back"]
    assert "rolled back, the script has its own loader again" in ended.stderr


@pytest.mark.parametrize("library", LIBRARIES)
def test_an_error_of_the_script_ends_it_as_ever(library: str, remedied: Any) -> None:
    ended = remedied(library, "overlap=2", *SHORT, "--fails-at", "17")
    assert ended.code == 1
    traceback = ended.stderr.partition("Traceback")[2]
    assert "ValueError: sample 17 is broken" in traceback
    assert "in DataLoader worker process" not in traceback


def test_a_loader_that_keeps_its_own_state_is_refused(by_command: Any, plain: Any) -> None:
    ended = by_command("stateful_loop", "overlap=2,cache-ram=50MB", *SHORT)
    assert ended.code == 0, ended.stderr
    assert ended.stdout == plain("stateful_loop", *SHORT).stdout  # with the loader's state in it
    reasons = [one["reason"] for one in ended.account["refused"]]
    assert reasons == ["StatefulDataLoader iterates in a way of its own"] * 2
    assert "overlap=2 refused: StatefulDataLoader iterates" in ended.stderr
    assert "not certified, because no remedy was applied" in ended.stderr


LOOP = """
import torch, stoker
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in {batches}:
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
print("weights")
"""


@pytest.mark.parametrize(
    ("batches", "why"),
    [
        ("(torch.ones(2, 4) for _ in range(5))", ", and their batches came from no"),
        ("stoker.watch([torch.ones(2, 4)] * 5)", ", and their batches came from no"),
        ("stoker.DataLoader([torch.ones(4)] * 10, 2)", "; stoker.DataLoader makes its batches in"),
    ],
)
def test_a_loop_without_a_loader_is_told_that_nothing_was_applied(
    batches: str, why: str, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(LOOP.format(batches=batches))
    stoker = [sys.executable, "-m", "stoker", "run", "--apply", "overlap=2", "--"]
    ended = ran([*stoker, str(PYTHON), "train.py"], tmp_path)
    assert (ended.code, ended.stdout) == (0, "weights\n"), ended.stderr
    assert f"nothing was applied: the optimizer has made 5 steps{why}" in ended.stderr


def test_the_change_of_the_code_is_that_of_the_library() -> None:
    def change(library: str) -> str:
        stoker = [sys.executable, "-m", "stoker", "run", "--dry-run", "--apply", "overlap=2", "--"]
        ended = subprocess.run(
            [*stoker, *command_of(library)], capture_output=True, text=True, check=True
        )
        return ended.stdout

    assert "+            dataloader_num_workers=2,\n" in change("transformers_trainer")
    trained = change("lightning_trainer")
    assert trained.count("\n+ ") == 1
    assert "+        num_workers=2,\n" in trained


def test_two_ranks_train_as_without(tmp_path: Path) -> None:
    """Each rank tries by itself; one speaks."""
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    script = [str(SCRIPTS / "accelerate_loop.py"), *SHORT]
    alone, together = tmp_path / "alone", tmp_path / "together"
    alone.mkdir()
    together.mkdir()
    expected = ran([str(PYTHON), *launch, *script], alone, dict(os.environ))
    assert expected.code == 0, expected.stderr
    orders = under_orders(
        "overlap=1", together / "account.json", baseline_s=SLOW_S, checked_batches=3
    )
    ended = ran([str(PYTHON), *launch, *script], together, orders)
    assert ended.code == 0, ended.stderr
    assert ended.stdout == expected.stdout
    assert ended.account["rolled_back"] is None
    assert ended.stderr.count("overlap=1: 1 worker in place of none") == 1
