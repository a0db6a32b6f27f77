"""What a PyTorch module does, layer by layer, told from shapes alone on the meta device.

One forward pass runs without data or memory; every ATen operation is counted and given to the
innermost module that called it. torch is imported on use, since forecasts from the zoo need none.
"""

from __future__ import annotations

import importlib
import inspect
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from stoker.errors import InputError
from stoker.records.zoo import (
    FLOPS_PER_MAC,
    Accelerator,
    Kind,
    Layers,
    Model,
    Operations,
    Precision,
    Sourced,
    Work,
)
from stoker.theory.operators import classify, elements

# Normalisation by batch statistics needs two samples; counts are halved again.
_SAMPLES = 2


class Layer(msgspec.Struct, frozen=True, kw_only=True):
    """One module and what its own operations do in a forward pass, for one sample."""

    name: str
    kind: str
    parameters: float
    operations: dict[Work, Operations]

    @property
    def macs(self) -> float:
        """Multiply-accumulates of the layer."""
        return sum(one.macs for one in self.operations.values())

    @property
    def moved(self) -> float:
        """Elements of activations read and written."""
        return sum(one.read + one.written for one in self.operations.values())


class LayerForecast(msgspec.Struct, frozen=True, kw_only=True):
    """One layer on one accelerator: the roofline's two sides, for a batch."""

    name: str
    kind: str
    flops: float
    bytes: float
    intensity: float  # FLOPs a byte
    ridge: float
    is_compute_bound: bool
    seconds: float  # the longer of the two sides at the full rates: a lower bound
    share: float  # of the sum over all layers


def _sum(a: Operations, b: Operations) -> Operations:
    return Operations(a.macs + b.macs, a.read + b.read, a.written + b.written, a.calls + b.calls)


def _counting(into: Callable[[Work, Operations], None]) -> Any:
    """A dispatch mode that hands every counted operation to `into`."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counting(TorchDispatchMode):  # type: ignore[misc]  # torch is untyped here
        # Off the accelerator, dropout is a mask, a scaling and a product; on it, one operation.
        part_of_dropout = 0

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            out = func(*args, **(kwargs or {}))
            name = func._schema.name.partition("::")[2]
            if name.startswith("bernoulli"):
                self.part_of_dropout = 2
                size = elements(args[0])
                into(Work.DROPOUT, Operations(0, size, size, 1))
            elif self.part_of_dropout and name.rstrip("_") in ("div", "mul"):
                self.part_of_dropout -= 1
            else:
                counted = classify(name, args, out)
                if counted is not None:
                    into(*counted)
            return out

    return Counting()


def _fused_attention(into: Callable[[Work, Operations], None]) -> Any:
    """Counts `scaled_dot_product_attention` as the one kernel that it is on an accelerator.

    Two products; only queries, keys, values and the result are moved.
    """
    from torch.nn.functional import scaled_dot_product_attention
    from torch.overrides import TorchFunctionMode

    class Fused(TorchFunctionMode):  # type: ignore[misc]  # torch is untyped here
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if func is not scaled_dot_product_attention:
                return func(*args, **(kwargs or {}))
            query, key, value = args[:3]
            out = query.new_empty((*query.shape[:-1], value.shape[-1]))
            macs = elements(query) * key.shape[-2] + elements(out) * key.shape[-2]
            read = elements(query) + elements(key) + elements(value)
            into(Work.MATMUL, Operations(macs, read, elements(out), 1))
            return out

    return Fused()


@contextmanager
def _innermost(module: Any) -> Iterator[Callable[[], str]]:
    """The name of the module whose forward pass is running, at any time while open."""
    stack: list[str] = [""]
    handles = []
    for name, child in module.named_modules():
        handles.append(child.register_forward_pre_hook(lambda *_, n=name: stack.append(n)))
        handles.append(child.register_forward_hook(lambda *_: stack.pop() and None))
    try:
        yield lambda: stack[-1]
    finally:
        for handle in handles:
            handle.remove()


def layers(module: Any, *inputs: Any) -> tuple[Layer, ...]:
    """Every module that computes something, in the order of its first operation, for one sample.

    `module` and `inputs` must be on the meta device; `inputs` have two samples in dimension 0.
    """
    import torch

    found: dict[str, dict[Work, Operations]] = {}
    nothing = Operations(0, 0, 0, 0)
    with _innermost(module) as current:

        def into(work: Work, operations: Operations) -> None:
            mine = found.setdefault(current(), {})
            mine[work] = _sum(mine.get(work, nothing), operations)

        module.train()
        with torch.no_grad(), _fused_attention(into), _counting(into):
            module(*inputs)
    modules = dict(module.named_modules())
    return tuple(
        Layer(
            name=name,
            kind=type(modules[name]).__name__,
            parameters=float(sum(p.numel() for p in modules[name].parameters(recurse=False))),
            operations={
                work: Operations(
                    one.macs / _SAMPLES, one.read / _SAMPLES, one.written / _SAMPLES, one.calls
                )
                for work, one in works.items()
            },
        )
        for name, works in found.items()
    )


def totals(counted: Sequence[Layer]) -> dict[Work, Operations]:
    """The operations of all layers together."""
    nothing = Operations(0, 0, 0, 0)
    total: dict[Work, Operations] = {}
    for layer in counted:
        for work, one in layer.operations.items():
            total[work] = _sum(total.get(work, nothing), one)
    return total


def dominant(operations: Mapping[Work, Operations]) -> Layers:
    """The class of a network, by where its matrix work and its activations are."""
    macs = {work: one.macs for work, one in operations.items()}
    written = {work: one.written for work, one in operations.items()}
    all_macs = sum(macs.values()) or 1.0
    convolutions = sum(macs.get(w, 0.0) for w in (Work.CONV, Work.POINTWISE, Work.GROUPED))
    if written.get(Work.DEPTHWISE, 0.0) > 0.1 * sum(written.values()) / 3:
        return Layers.DEPTHWISE
    if macs.get(Work.GROUPED, 0.0) > 0.05 * all_macs:
        return Layers.GROUPED
    return Layers.CONV if convolutions > 0.5 * all_macs else Layers.ATTENTION


def model_of(name: str, module: Any, *inputs: Any) -> Model:
    """A zoo entry for a module on the meta device; its unit is one sample."""
    counted = layers(module, *inputs)
    works = totals(counted)
    parameters = float(sum(p.numel() for p in module.parameters()))
    matrix = tuple(Work)[:6]

    def number(value: float) -> Sourced:
        return Sourced(value, Kind.MEASURED, "counted from the layers' shapes", "")

    return Model(
        name=name,
        title=name,
        family=type(module).__name__,
        layers=dominant(works),
        unit="sample",
        input="x".join(str(size) for size in inputs[0].shape[1:]),
        parameters=number(parameters),
        forward_macs=number(sum(one.macs for one in works.values())),
        activations=number(sum(works[w].written for w in matrix if w in works)),
        operations=works,
        operations_source="counted from the layers' shapes",
    )


def build(spec: str, shape: str) -> tuple[Any, Any]:
    """`package.module:callable` and `3x224x224` -> (module, input) on the meta device.

    Raises InputError for what can't be imported, called, or is no module. `shape` without the
    batch; a shape ending in `i` (`128i`) makes token numbers.
    """
    import torch

    place, _, attribute = spec.partition(":")
    sizes = re.fullmatch(r"(\d+(?:x\d+)*)(i?)", shape)
    if not attribute or sizes is None:
        raise InputError(
            f"'{spec}' with input '{shape}' names no model",
            looked_at="MODULE:CALLABLE and a shape such as 3x224x224, or 128i for token numbers",
            run_next="stoker predict mymodule:build_model --input 3x224x224 --on a100",
        )
    sys.path.insert(0, str(Path.cwd()))
    try:
        factory = getattr(importlib.import_module(place), attribute)
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"{spec} can't be imported: {error}",
            looked_at=f"the working folder {Path.cwd()} and the installed packages",
            run_next="run it where the module can be imported",
        ) from error
    finally:
        sys.path.pop(0)
    dims = [_SAMPLES, *(int(size) for size in sizes.group(1).split("x"))]
    with torch.device("meta"):
        module = factory if _is_module(factory) else _made(factory, spec)
        if not _is_module(module):
            raise InputError(
                f"{spec} gives a {type(module).__name__}, not a torch.nn.Module",
                looked_at=spec,
                run_next="name a module, or a callable without arguments that makes one",
            )
        module = module.to("meta")
        kind = torch.long if sizes.group(2) else torch.float32
        return module, torch.empty(dims, dtype=kind)


def _made(factory: Any, spec: str) -> Any:
    """What the callable gives; what is no callable is given back, for its type to be told."""
    if not callable(factory):
        return factory
    try:
        inspect.signature(factory).bind()
    except TypeError as error:
        raise InputError(
            f"{spec} must take no arguments: {error}",
            looked_at=f"the arguments of {spec}",
            run_next="write build_model() without arguments that returns the model, and name it",
        ) from error
    except ValueError:
        pass  # some callables of C have no signature; calling them tells
    return factory()


def _is_module(value: Any) -> bool:
    import torch

    return isinstance(value, torch.nn.Module)


def on_accelerator(
    counted: Sequence[Layer],
    accelerator: Accelerator,
    *,
    batch: int,
    precision: Precision = Precision.BF16,
) -> tuple[LayerForecast, ...]:
    """Which side of the roofline each layer's forward pass is on.

    Bytes are activations read and written and weights read, once each. Raises InputError for a
    precision that the accelerator lacks.
    """
    peak = accelerator.peak(precision)
    if peak is None:
        have = ", ".join(str(one) for one in accelerator.peak_flops)
        raise InputError(
            f"{accelerator.name} has no {precision} rate",
            looked_at=f"its rates: {have or 'none is known'}",
            run_next="choose one of these with --precision",
        )
    bandwidth = accelerator.memory_bytes_per_s.value
    width = 4 if precision in (Precision.FP32, Precision.TF32) else 2
    rows = []
    for layer in counted:
        flops = batch * FLOPS_PER_MAC * layer.macs
        moved = width * (batch * layer.moved + layer.parameters)
        if moved == 0:
            continue
        rows.append((layer, flops, moved, max(flops / peak, moved / bandwidth)))
    total = math.fsum(row[3] for row in rows) or 1.0
    return tuple(
        LayerForecast(
            name=layer.name,
            kind=layer.kind,
            flops=flops,
            bytes=moved,
            intensity=flops / moved,
            ridge=peak / bandwidth,
            is_compute_bound=flops / peak >= moved / bandwidth,
            seconds=seconds,
            share=seconds / total,
        )
        for layer, flops, moved, seconds in rows
    )
