"""The fit itself: rows, equations and constants as one least-squares problem with priors.

Gauss-Newton on logarithms with robust weights; groups of rows can be held out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from benchmarks.step_priors import ARCHITECTURES, FOREIGN_EFFECT, FREE_EFFECT, PRIORS
from benchmarks.step_rows import Observed
from stoker.theory.cases import devices, networks, stem_of, texts
from stoker.theory.constants import Fit
from stoker.theory.roofline import Array, Constants, network_seconds, text_seconds

# A rate off by a factor far beyond this is taken for a mistake or another set-up (Student's t with
# four degrees of freedom).
_ROW_SPREAD, _FREEDOM = 0.10, 4.0


class Theta:
    """The constants as one vector of parameters, named as the equations ask for them."""

    def __init__(self, fixed: Constants | None = None, free: Iterable[str] = ()) -> None:
        self.names: list[str] = []
        self.vector = np.zeros(0)
        self._places: dict[tuple[str, int], Array] = {}
        self._kept: list[object] = []
        self._index: dict[str, int] = {}
        self._fixed = fixed
        self._free = frozenset(free)

    def prior(self, name: str) -> tuple[float, float]:
        """Median and log standard deviation; plain mean and deviation for exponents."""
        if name in self._free:
            return 1.0, FREE_EFFECT
        kind, _, label = name.rpartition(".")
        if kind.endswith("architecture") and label not in ARCHITECTURES:
            return 1.0, FOREIGN_EFFECT
        return PRIORS[name] if name in PRIORS else PRIORS[name.rpartition(".")[0]]

    def _place(self, name: str) -> int:
        if name not in self._index:
            self._index[name] = len(self.names)
            self.names.append(name)
            median, _ = self.prior(name)
            start = median if name.startswith("exponent.") else math.log(median)
            self.vector = np.append(self.vector, start)
        return self._index[name]

    def __call__(self, name: str, labels: Sequence[str] | None = None) -> Array:
        """See `roofline.Constants`."""
        if labels is None:
            if self._fixed is not None and name.startswith("issue."):
                return self._fixed(name)
            place = self._place(name)
            value = self.vector[place]
            return np.array([value if name.startswith("exponent.") else math.exp(value)])
        key = (name, id(labels))
        if key not in self._places:
            self._kept.append(labels)  # so that the identity stays the key's own
            self._places[key] = np.array([self._label(f"{name}.{label}") for label in labels])
        places = self._places[key]
        return np.where(places < 0, 1.0, np.exp(self.vector[np.maximum(places, 0)]))

    def _label(self, name: str) -> int:
        """-1 for the neutral labels, which define the unit."""
        return -1 if name.endswith((".amp", ".usual")) else self._place(name)

    def effects(self) -> list[Array]:
        """For each effect, the parameter that multiplies each row."""
        return [places for (name, _), places in self._places.items() if name.startswith("effect.")]

    def spreads(self) -> tuple[Array, Array]:
        """Centres and deviations of all priors, on the vector's own scale."""
        priors = [self.prior(name) for name in self.names]
        centres = [
            median if name.startswith("exponent.") else math.log(median)
            for name, (median, _) in zip(self.names, priors, strict=True)
        ]
        return np.array(centres), np.array([spread for _, spread in priors])

    def values(self) -> dict[str, float]:
        """The constants by name."""
        return {
            name: float(value) if name.startswith("exponent.") else math.exp(value)
            for name, value in zip(self.names, self.vector, strict=True)
        }


class Problem:
    """Rows, the equations on them, and the constants to be found."""

    def __init__(self, rows: Sequence[Observed], fit: Fit, fixed: Constants | None = None) -> None:
        self.rows = list(rows)
        cases = [row.case for row in rows]
        stems = {stem_of(row.case.model.name) for row in rows if row.is_free}
        self.theta = Theta(fixed, (f"effect.model.{stem}" for stem in stems))
        self._devices = devices(cases, fit.architectures)
        self._equations: Callable[[], Array]
        if rows[0].is_text:
            works = texts(cases)
            self._equations = lambda: text_seconds(self._devices, works, self.theta).total
        else:
            layers = networks(cases, fit.templates)
            self._equations = lambda: network_seconds(self._devices, layers, self.theta).total
        self.observed = np.log([row.seconds for row in rows])
        self.weights = np.array([row.weight for row in rows])
        self.logs()  # names every parameter

    def logs(self) -> Array:
        """Logarithms of the forecast seconds."""
        return np.log(self._equations())

    def _jacobian(self, at: Array) -> Array:
        jacobian = np.zeros((len(self.rows), len(self.theta.vector)))
        here = self.theta.vector.copy()
        for place, name in enumerate(self.theta.names):
            if name.startswith("effect."):
                continue
            self.theta.vector = here.copy()
            self.theta.vector[place] += 1e-4
            jacobian[:, place] = (self.logs() - at) / 1e-4
        self.theta.vector = here
        numbers = np.arange(len(self.rows))
        for places in self.theta.effects():
            has = places >= 0
            jacobian[numbers[has], places[has]] += 1.0
        return jacobian

    def solve(self, weights: Array, start: Array | None = None, rounds: int = 25) -> Array:
        """The most probable parameters for these weights (Gauss-Newton, damped)."""
        centre, spread = self.theta.spreads()
        self.theta.vector = centre.copy() if start is None else start.copy()
        for _ in range(rounds):
            at = self.logs()
            off = at - self.observed
            jacobian = self._jacobian(at)
            robust = weights * (_FREEDOM + 1) / (_FREEDOM + (off / _ROW_SPREAD) ** 2)
            robust /= _ROW_SPREAD**2
            normal = (jacobian * robust[:, None]).T @ jacobian + np.diag(1 / spread**2)
            slope = (jacobian * robust[:, None]).T @ off
            slope += (self.theta.vector - centre) / spread**2
            step = np.linalg.solve(normal, slope)
            largest = float(np.abs(step).max())
            self.theta.vector = self.theta.vector - step * min(1.0, 0.7 / max(largest, 1e-9))
            if largest < 2e-3:
                break
        return self.theta.vector

    def residuals(self) -> Array:
        """log(forecast seconds / published seconds) of each row."""
        return self.logs() - self.observed

    def held_out(
        self, group: Callable[[Observed], str], twins: Callable[[Observed], object] | None = None
    ) -> dict[str, float]:
        """Residual of each row of training.csv from a fit without its group.

        With `twins`, rows of the big table that share a twin with the group are left out too.
        """
        best = self.solve(self.weights)
        found: dict[str, float] = {}
        mine = [row for row in self.rows if not row.is_table]
        for name in sorted({group(row) for row in mine}):
            tested = np.array([not row.is_table and group(row) == name for row in self.rows])
            gone = tested | np.array([group(row) == name for row in self.rows])
            if twins is not None:
                same = {twins(row) for row, hit in zip(self.rows, tested, strict=True) if hit}
                gone |= np.array([row.is_table and twins(row) in same for row in self.rows])
            self.solve(np.where(gone, 0.0, self.weights), best, rounds=6)
            off = self.residuals()
            for place in np.flatnonzero(tested):
                found[self.rows[place].row_id] = float(off[place])
        self.theta.vector = best
        return found


def by_accelerator(row: Observed) -> str:
    """Group of all rows on one device."""
    return row.case.accelerator.name


def by_model(row: Observed) -> str:
    """Group of all rows of one model, at any input size."""
    return stem_of(row.case.model.name)


def by_fold(row: Observed) -> str:
    """Ten groups that cut across devices and models."""
    return str(int(row.row_id) % 10) if row.row_id.isdigit() else "table"


def place(row: Observed) -> object:
    """What two rates of one model on one device share: training.csv repeats some submissions."""
    return row.case.model.name, row.case.accelerator.name


def twin(row: Observed) -> object:
    """What two networks of the same shapes share, whatever their names: work and activations."""
    macs, activations = row.case.model.forward_macs, row.case.model.activations
    if macs is None or activations is None:
        return row.case.model.name
    return round(math.log(macs.value), 2), round(math.log(activations.value), 2)
