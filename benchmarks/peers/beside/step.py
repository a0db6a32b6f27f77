"""Lies beside an adapted case: its step as the forward pass of a model, with an optimizer.

The cases' steps are sleeps or an emulated device. Tools that hook into modules, `backward` and
optimizers would see nothing of them; with this they see a training step of the same length.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class Model(torch.nn.Module):
    """Calls what it is given; its one weight makes the rest of a step, which takes microseconds."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def forward(self, step: Callable[[], Any]) -> tuple[Any, torch.Tensor]:
        """What the step returned, and a loss."""
        return step(), self.weight.sum()


class Step:
    """The forward pass of a case's own step, then backward and the optimizer's step."""

    def __init__(self) -> None:
        self.model = Model()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.0)
        self.loss = torch.zeros(1)

    def forward(self, step: Callable[[], Any]) -> Any:
        """Run a part of the step; returns what it returned."""
        result, self.loss = self.model(step)
        return result

    def finish(self) -> None:
        """The end of the step."""
        self.loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
