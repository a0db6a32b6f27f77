"""In front of PYTHONPATH by `stoker doctor` and `stoker run`: starts them in every Python of a run.

Runs the sitecustomize that it hides, if there is one, then loads the probe from where stoker lies,
so that the examined interpreter needs no stoker of its own. Never breaks the start of Python.
"""

import importlib
import importlib.machinery
import importlib.util
import os
import sys


def _run_hidden_sitecustomize() -> None:
    here = os.path.realpath(os.path.dirname(__file__))  # noqa: PTH120 - pathlib costs start-up time
    rest = [entry for entry in sys.path if os.path.realpath(entry or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", rest)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module  # as without us, for who imports it
        spec.loader.exec_module(module)


def _start_probe() -> None:
    # Under the doctor the script is measured as it is, whatever started the doctor.
    if "STOKER_PROBE_SESSION" in os.environ:
        start = "stoker.probe.bootstrap"
    elif "STOKER_RUN" in os.environ:
        start = "stoker.remedy.bootstrap"
    else:
        return
    # Always the stoker that examines: another version may be installed beside the script, and a
    # folder of that name may lie in its path.
    root = os.environ["STOKER_PROBE_ROOT"]
    spec = importlib.util.spec_from_file_location(
        "stoker", f"{root}/__init__.py", submodule_search_locations=[root]
    )
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["stoker"] = module
    spec.loader.exec_module(module)
    importlib.import_module("stoker.clocks")  # before the script can put others in their place
    importlib.import_module(start).start()
    if "STOKER_PROBE_TRY" in os.environ and start == "stoker.probe.bootstrap":
        importlib.import_module("stoker.remedy.candidates").start()


try:
    _run_hidden_sitecustomize()
finally:
    try:
        _start_probe()
    except Exception as error:  # noqa: BLE001 - an older Python, say: the script runs unwatched
        if sys.stderr is not None:  # closed by who started it
            sys.stderr.write(f"stoker: this Python is not watched: {error!r}\n")
