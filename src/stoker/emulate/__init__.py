"""An accelerator that only takes time: for trying loaders where there is no real one."""

from stoker.emulate.accelerator import (
    EmulatedAccelerator,
    StepHandle,
    live,
    mark_resident,
    synchronize_all,
)

__all__ = ["EmulatedAccelerator", "StepHandle", "live", "mark_resident", "synchronize_all"]
