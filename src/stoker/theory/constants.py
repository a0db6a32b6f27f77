"""The fitted constants of the step-time equations, read from zoo/fit.toml with their provenance."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache

import msgspec
import numpy as np

from stoker.records.zoo import Layers, Work
from stoker.theory.roofline import Array
from stoker.zoo.load import PACKAGED

# What nobody fitted changes nothing: a factor of one, an exponent of zero.
_NEUTRAL_FACTORS = ("effect.", "stack.")


class Architecture(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Facts of a chip family that an accelerator's data sheet does not spell out."""

    lanes: float  # fp32 lanes of one multiprocessor
    full_rate: float  # dense 16-bit matrix FLOPs for each fp32 FLOP, nothing halved
    flops_per_joule: float  # 16-bit matrix work that the power limit sustains
    source: str


class Template(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The usual composition of a class of networks, for one whose layers nobody counted."""

    macs: dict[Work, float]  # share of all multiply-accumulates
    moved: dict[Work, float]  # elements for each activation element
    activations_per_mac: float
    calls: float
    batch: int  # the usual one, where a published rate does not say


class Band(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Factors that three quarters of held-out rates lie within, by what the fit has seen."""

    seen: float  # rates of the accelerator and of the model, though not this one
    new_accelerator: float
    new_model: float


class Bands(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Bands by what is known of a model."""

    counted: Band  # its layers
    uncounted: Band  # its class, or nothing but published rates
    language: Band  # parameters and length
    foreign: float  # on a device of a chip family that no rate in the fit is from and no fact is of


class Fit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All of zoo/fit.toml."""

    source: str
    kind: str
    checked: str
    constants: dict[str, float]
    bands: Bands
    architectures: dict[str, Architecture]
    templates: dict[Layers, Template]

    def __call__(self, name: str, labels: Sequence[str] | None = None) -> Array:
        """The constant of each label (or one); see `roofline.Constants`."""
        if labels is None:
            return np.array([self.constants[name]])
        return np.array([self._labelled(f"{name}.{label}") for label in labels])

    def _labelled(self, key: str) -> float:
        if key.startswith(_NEUTRAL_FACTORS):
            return self.constants.get(key, 1.0)
        return self.constants[key]

    def knows_accelerator(self, name: str, *, of_texts: bool = False) -> bool:
        """True when published rates of networks (of language models) on it went into the fit."""
        of = "language-" if of_texts else ""
        return f"effect.{of}accelerator.{name}" in self.constants

    def knows_model(self, stem: str) -> bool:
        """True when published rates of this model went into the fit."""
        return f"effect.model.{stem}" in self.constants


@cache
def fitted() -> Fit:
    """The constants that are shipped."""
    plain: Mapping[str, object] = tomllib.loads((PACKAGED / "fit.toml").read_text("utf-8"))
    return msgspec.convert(plain, Fit)
