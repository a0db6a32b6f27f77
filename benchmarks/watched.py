"""Runs a script under every hook of the doctor, leg R only: `watched.py SCRIPT [ARGS…]`.

The session folder (`session_environment`) stands in for the one that `probe.attach` makes.
"""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import stoker
from stoker.probe import bootstrap, conductor
from stoker.probe.legs import Loop, Plan, Window
from stoker.probe.session import OPTIONS_FILE, ROOT_VARIABLE, SESSION_VARIABLE

_WINDOW_STEPS = 100


def session_environment(folder: Path) -> dict[str, str]:
    """Make a session in the folder; the variables that tell an examined process of it."""
    options = {"budget_s": 3600.0, "steps": None, "writes": "allowed", "stages": True}
    (folder / OPTIONS_FILE).write_text(json.dumps(options))
    root = str(Path(stoker.__file__).parent)
    return {SESSION_VARIABLE: str(folder), ROOT_VARIABLE: root}


def real_only(_loop: Loop, *_limits: object) -> Plan:
    """A plan that never takes the loader away from the script."""
    while True:
        yield Window("R", steps=_WINDOW_STEPS)


def main() -> None:
    """Install the hooks, then run the script as `__main__`."""
    script, *arguments = sys.argv[1:]
    vars(conductor)["plan"] = real_only  # the name under which the conductor calls legs.plan
    bootstrap.start()
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).resolve().parent)
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
