"""Scripts under remedies: how the tests here run them, as `stoker run` would start them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import stoker
from stoker.probe.session import ROOT_VARIABLE
from stoker.remedy.orders import Orders
from stoker.remedy.request import parse

SCRIPT = Path(__file__).parent / "scripts" / "photos.py"
SITE = Path(stoker.__file__).parent / "probe" / "site"
# A step that no way of loading is slower than: the remedies go first and are kept.
SLOW_S = 1000.0


@dataclass(frozen=True)
class Ended:
    """What a script has printed, and the account of its loader."""

    stdout: str
    stderr: str
    code: int
    account: dict[str, Any]


def environment(remedies: str, account: Path | None, **orders: Any) -> dict[str, str]:
    """The variables with which `stoker run` starts a script."""
    if "baseline_s" in orders:  # the diagnosis has seen a batch, too
        orders = {"batch_bytes": 8 * 3 * 64 * 64 * 4, **orders}
    carried = Orders(requests=parse(remedies), json=account and str(account), **orders)
    path = os.environ.get("PYTHONPATH", "")
    return {
        **os.environ,
        **carried.to_environment(),
        ROOT_VARIABLE: str(Path(stoker.__file__).parent),
        "PYTHONPATH": f"{SITE}{os.pathsep}{path}",
    }


def plain(*arguments: object) -> str:
    """What the photo script prints by itself."""
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def remedied(remedies: str, *arguments: object, folder: Path, **orders: Any) -> Ended:
    """The photo script under remedies; without `baseline_s` their trial comes first."""
    account = folder / "account.json"
    ended = subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, arguments)],
        env=environment(remedies, account, **orders),
        capture_output=True,
        text=True,
        check=False,
    )
    record = json.loads(account.read_text()) if account.exists() else {"loaders": [{}]}
    return Ended(ended.stdout, ended.stderr, ended.returncode, record["loaders"][0])
