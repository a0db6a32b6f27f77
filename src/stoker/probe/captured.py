"""The child's side of packing what a script loads: runs up to its training loader, then packs.

The script's own process has the data set as its training would: the same objects, arguments and
working directory. It is packed where `iter(loader)` was called, and the script ends there.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Any, NamedTuple, NoReturn

from stoker import lifetime
from stoker.probe.hooks.torch import batch_size_of, samples_of
from stoker.probe.session import Session

# What the parent is told by lines in the session.
PACKING, PACKED, REFUSED, BROKE = "packing", "packed", "refused", "broke"
PASSED = "passed"


class Wanted(NamedTuple):
    """The training loader: the class of its data set, and how many samples and how large batches.

    Training and validation are often of one class. None: not known.
    """

    dataset: str
    samples: int | None
    batch_size: int | None

    @classmethod
    def of(cls, loader: Any) -> Wanted:
        """What a loader of the script has."""
        kind = type(loader.dataset)
        name = f"{kind.__module__}.{kind.__qualname__}"
        return cls(name, samples_of(loader), batch_size_of(loader))

    def is_met_by(self, other: Wanted) -> bool:
        """Whether nothing that is known of both differs."""
        return all(a == b for a, b in zip(self, other, strict=True) if None not in (a, b))

    def __str__(self) -> str:
        samples = "" if self.samples is None else f", {self.samples:,} samples"
        batches = "" if self.batch_size is None else f", batches of {self.batch_size:,}"
        return f"{self.dataset}{samples}{batches}"


def install(session: Session, module: ModuleType) -> None:
    """Wait in front of `iter(loader)` for the loader over the data set that is asked for."""
    # Whoever asked may be killed: nobody would wait for the pack.
    lifetime.end_with(session.options["asked_by"])
    wanted = Wanted(**session.options["wanted"])
    passed: set[Wanted] = set()
    original, own = module.DataLoader.__iter__, os.getpid()

    def __iter__(loader: Any) -> Any:  # noqa: N807 - takes the place of the method
        is_here = os.getpid() == own and module._utils.worker._worker_info is None
        if is_here and sys.modules["torch"].is_grad_enabled():
            found = Wanted.of(loader)
            if wanted.is_met_by(found):
                _pack(session, loader.dataset, found)
            if found.dataset == wanted.dataset and found not in passed:
                passed.add(found)
                session.write(PASSED, loader=str(found))
        return original(loader)

    module.DataLoader.__iter__ = __iter__


def _pack(session: Session, dataset: Any, loader: Wanted) -> NoReturn:
    """Do what was asked for, tell it, and end without the script's own way out."""
    import msgspec

    from stoker.errors import StokerError
    from stoker.pack.build import Progress
    from stoker.pack.errand import Errand, perform

    def tell(step: Progress) -> None:
        session.write(PACKING, **step._asdict())

    code = 0
    try:
        errand = msgspec.convert(session.options["errand"], Errand)
        summary = perform(errand, dataset, tell)
        remarks = (f"of the loader over {loader}", *summary.remarks)
        summary = msgspec.structs.replace(summary, remarks=remarks)
        session.write(PACKED, summary=msgspec.to_builtins(summary))
    except StokerError as error:
        said = (error.happened, error.looked_at, error.run_next)
        session.write(REFUSED, error=type(error).__name__, said=said)
        code = error.exit_code
    except KeyboardInterrupt:
        code = 130
    except BaseException as error:  # noqa: BLE001 - told, and raised again by whoever asked
        import traceback

        session.write(BROKE, text=f"{type(error).__name__}: {error}")
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
