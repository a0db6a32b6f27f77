"""`Models.Vision.ResNet50` and `Hardware.Cloud.A100`: the zoo under the tutorial's names.

Thin: an entry of the zoo with quantities for its numbers, and what a textbook assumes about it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from stoker.errors import InputError
from stoker.records.zoo import Accelerator, Model, Storage
from stoker.units import Dimension, from_si
from stoker.zoo.load import PACKAGED, Zoo, load_zoo

if TYPE_CHECKING:
    import pint

_TEXTBOOK = PACKAGED / "textbook" / "mlsysim.toml"


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """A model. `textbook_flops` of a forward pass and `layers` belong to the textbook roofline."""

    entry: Model
    textbook_flops: float
    layers: int = 1

    @property
    def name(self) -> str:
        """The model's title."""
        return self.entry.title

    @property
    def parameters(self) -> float:
        """How many parameters it has; NaN when nobody says."""
        return self.entry.parameters.value if self.entry.parameters else float("nan")


class Part(msgspec.Struct, frozen=True):
    """One part of a machine, its numbers as quantities; None is unknown."""

    capacity: pint.Quantity[float] | None = None
    bandwidth: pint.Quantity[float] | None = None


class Compute(msgspec.Struct, frozen=True):
    """Dense peak rates; `peak_flops` is that of 16 bits."""

    peak_flops: pint.Quantity[float]
    precision_flops: dict[str, pint.Quantity[float]]


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """One accelerator, with the storage that it reads from where that is known."""

    entry: Accelerator
    link_bytes_per_s: float | None
    link_source: str
    store: Storage | None = None
    dispatch_s: float

    @property
    def name(self) -> str:
        """The accelerator's title."""
        return self.entry.title

    @property
    def compute(self) -> Compute:
        """Dense peaks at each precision."""
        rates = {
            precision.value: from_si(peak.value, Dimension.FLOP_RATE).to("TFLOP/s")
            for precision, peak in self.entry.peak_flops.items()
        }
        sixteen = rates.get("fp16") or rates.get("bf16") or next(iter(rates.values()))
        return Compute(sixteen, rates)

    @property
    def memory(self) -> Part:
        """Device memory."""
        return Part(
            from_si(self.entry.memory_bytes.value, Dimension.BYTES).to("GB"),
            from_si(self.entry.memory_bytes_per_s.value, Dimension.BYTE_RATE).to("GB/s"),
        )

    @property
    def interconnect(self) -> Part:
        """The link to the host, one direction."""
        if self.link_bytes_per_s is None:
            return Part()
        return Part(None, from_si(self.link_bytes_per_s, Dimension.BYTE_RATE).to("GB/s"))

    @property
    def storage(self) -> Part | None:
        """Its storage; None: unknown, which is not the same as fast."""
        if self.store is None:
            return None
        rate = self.store.bytes_per_s
        return Part(
            None, None if rate is None else from_si(rate.value, Dimension.BYTE_RATE).to("GB/s")
        )

    def with_storage(self, name: str) -> Machine:
        """The same machine reading from a kind of storage of the zoo. Raises InputError."""
        return msgspec.structs.replace(self, store=_zoo().storage(name))


@cache
def textbook() -> dict[str, Any]:
    """The textbook's assumptions, as the file has them."""
    return tomllib.loads(_TEXTBOOK.read_text("utf-8"))


@cache
def _zoo() -> Zoo:
    return load_zoo()


def _workload(known: Mapping[str, Any]) -> Workload:
    entry = _zoo().model(known["entry"])
    return Workload(
        entry=entry,
        textbook_flops=known.get("forward_flops", entry.forward_flops or float("nan")),
        layers=known.get("layers", 1),
    )


def _machine(known: Mapping[str, Any]) -> Machine:
    entry = _zoo().accelerator(known["entry"])
    link = None if entry.link is None else _zoo().link(entry.link)
    rate = entry.link_bytes_per_s or (None if link is None else link.bytes_per_s)
    return Machine(
        entry=entry,
        link_bytes_per_s=None if rate is None else rate.value,
        link_source="unknown" if rate is None else f"{entry.link or 'link'}, {rate.kind.value}",
        dispatch_s=known.get("dispatch_s", textbook()["dispatch_s"]),
    )


Entry = TypeVar("Entry")


class _Group(Generic[Entry]):
    """Entries by attribute: the tutorial's names, and every name and alias of the zoo."""

    def __init__(self, make: Callable[[Mapping[str, Any]], Entry], shelf: str, group: str) -> None:
        self._make = make
        self._shelf = shelf
        self._group = group

    def __getattr__(self, name: str) -> Entry:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except InputError as error:
            raise AttributeError(str(error)) from error

    def __getitem__(self, name: str) -> Entry:
        """An entry by the tutorial's name or the zoo's. Raises InputError naming the nearest."""
        return self._make(self._known().get(name, {"entry": name}))

    def __dir__(self) -> list[str]:
        return sorted(self._known())

    def _known(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = textbook()[self._shelf][self._group]
        return found


class Models:
    """Models by the tutorial's names: `Models.Vision.ResNet50`, `Models.Language.Llama2_7B`."""

    Vision = _Group(_workload, "models", "Vision")
    Language = _Group(_workload, "models", "Language")


class Hardware:
    """Accelerators by the tutorial's names: `Hardware.Cloud.A100`."""

    Cloud = _Group(_machine, "machines", "Cloud")
