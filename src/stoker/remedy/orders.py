"""What `stoker run` tells the processes of the script: one variable of their environment.

No file is written for it, so that nothing is left whatever ends them. Standard library only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from stoker.remedy.gain import Mean
from stoker.remedy.request import Request
from stoker.remedy.trial import WINDOW_S

VARIABLE = "STOKER_RUN"


@dataclass(frozen=True)
class Orders:
    """The remedies and what is known beforehand about the loop that they are for."""

    requests: tuple[Request, ...]
    baseline_s: float | None = None  # of a step as the script has it, epoch boundaries included
    baseline_half_s: float | None = None  # half of its 95 % interval
    baseline_steps: int = 0  # that it is the mean of
    edge_s: float = 0.0  # of that, what the boundaries of epochs add to the mean step
    dataset: str | None = None  # the class of the training data set; None: any that trains
    batch_bytes: int | None = None
    worker_bytes: int | None = None  # memory that a worker of the script was seen to hold alone
    window_s: float = WINDOW_S  # of one stretch in which the remedies are tried
    checked_batches: int = 0  # compared with what the script's own loader gives
    script: str | None = None  # its absolute path; None for a module or launcher
    json: str | None = None  # where the account goes
    is_quiet: bool = False
    pid: int | None = None  # of the process that becomes the script
    notes: tuple[str, ...] = field(default=())

    @property
    def baseline(self) -> Mean | None:
        """A step as the script has it; None where no diagnosis has seen one."""
        if self.baseline_s is None:
            return None
        return Mean(self.baseline_s, self.baseline_half_s, self.baseline_steps)

    @property
    def inside_s(self) -> float | None:
        """A step within an epoch as the script has it; None where no diagnosis has seen one."""
        return None if self.baseline_s is None else self.baseline_s - self.edge_s

    def to_environment(self) -> dict[str, str]:
        """The variable that carries them."""
        return {VARIABLE: json.dumps(asdict(self), separators=(",", ":"))}

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Orders | None:
        """The orders that this process was started with; None without."""
        text = environ.get(VARIABLE)
        if text is None:
            return None
        fields = json.loads(text)
        fields["requests"] = tuple(Request(**one) for one in fields["requests"])
        fields["notes"] = tuple(fields["notes"])
        return cls(**fields)
