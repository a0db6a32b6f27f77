"""An exception from a worker to the loop: of its own type, with its traceback as text."""

from __future__ import annotations

import pickle
import traceback
from typing import NamedTuple

from stoker.errors import LoaderError


class Failure(NamedTuple):
    """What a worker sends. `pickled` is empty where the exception can't be pickled."""

    batch: int
    first: int
    samples: int
    row: int
    stage: str
    pickled: bytes
    named: str
    text: str

    @classmethod
    def of(cls, error: BaseException, *, batch: int, rows: range, row: int, stage: str) -> Failure:
        """The exception that is being handled."""
        try:
            pickled = pickle.dumps(error)
            pickle.loads(pickled)  # some can be written that can't be read
        except Exception:  # noqa: BLE001 - whatever its own methods raise
            pickled = b""
        named = f"{type(error).__name__}: {error}"
        text = "".join(traceback.format_exception(error)).rstrip()
        return cls(batch, rows.start, len(rows), row, stage, pickled, named, text)

    def raised(self, sample: str, worker: str) -> BaseException:
        """The exception for the loop; notes name stage and sample, and carry the traceback."""
        where = f"stage {self.stage!r}" + (f", sample {sample}" if sample else "")
        error: BaseException | None = None
        if self.pickled:
            error = pickle.loads(self.pickled)
        # A StopIteration would end the loop as if all was well (PEP 479).
        if not isinstance(error, BaseException) or isinstance(error, StopIteration):
            error = LoaderError(
                f"{where} failed: {self.named}",
                looked_at=f"the traceback of {worker}, below",
                run_next="mend or leave out that sample" if sample else f"mend {self.stage}",
            )
        error.add_note(where)
        error.add_note(f"in {worker}:\n{self.text}")
        return error
