"""Small scenarios and zoo entries that several tests of the theory start from."""

from __future__ import annotations

from stoker.records.scenario import (
    LoaderSettings,
    Machine,
    Resource,
    Scenario,
    StageCost,
    Workload,
)
from stoker.records.zoo import (
    Accelerator,
    DataSet,
    Host,
    HostOp,
    Kind,
    Layers,
    Link,
    Model,
    Op,
    Precision,
    Sourced,
    Storage,
)
from stoker.stats import Spread
from stoker.theory.setting import Setting


def exact(seconds: float, name: str = "decode", *, deterministic: bool | None = None) -> StageCost:
    return StageCost(
        stage=name,
        resource=Resource.CORES,
        per_sample=Spread.exact(seconds),
        deterministic=deterministic,
    )


def waiting(seconds: float, name: str = "read") -> StageCost:
    return StageCost(stage=name, resource=Resource.STORAGE, per_sample=Spread.exact(seconds))


def starved(**workload: object) -> Scenario:
    """10 samples of 10 ms decode and 2 ms flip on 4 cores, for a step of 10 ms: AU a third."""
    return Scenario(
        machine=Machine(cores=4),
        workload=Workload(
            batch_size=10,
            stages=(
                exact(0.010, deterministic=True),
                exact(0.002, "flip", deterministic=False),
            ),
            device_s=Spread.exact(0.010),
            **workload,  # type: ignore[arg-type]
        ),
        loader=LoaderSettings(workers=4),
    )


def said(value: float) -> Sourced:
    return Sourced(value, Kind.ESTIMATE, "a test", "2026-01-01")


def setting(**changes: object) -> Setting:
    """An image model on a host of 8 cores and 2 accelerators, all numbers round."""
    fields: dict[str, object] = {
        "model": Model(
            name="net",
            title="Net",
            family="net",
            layers=Layers.CONV,
            unit="image",
            input="100x100x3",
            parameters=said(1e6),
            forward_macs=said(1e9),
            activations=said(1e6),
        ),
        "accelerator": Accelerator(
            name="device",
            title="Device",
            vendor="V",
            architecture="A",
            peak_flops={Precision.FP16: said(1e14)},
            memory_bytes=said(16e9),
            memory_bytes_per_s=said(1e12),
        ),
        "batch": 100,
        "workers": 4,
        "host": Host(
            name="host",
            title="Host",
            provider="P",
            accelerator="device",
            accelerators=2,
            cores=said(8),
            memory_bytes=said(10e9),
            network_bytes_per_s=said(1e9),
            volume_bytes_per_s=said(5e8),
        ),
        "accelerators": 2,
        "dataset": DataSet(
            name="photos",
            title="Photos",
            stored_bytes=said(1e5),
            samples=said(1e5),
            pixels=said(40_000),
        ),
        "ops": (
            HostOp(
                name="decode@cpu",
                title="Decode",
                op=Op.DECODE,
                library="L",
                processor="C",
                input="I",
                core_s=said(1e-3),
                pixels=20_000,
            ),
            HostOp(
                name="crop@cpu",
                title="Crop",
                op=Op.RESIZE,
                library="L",
                processor="C",
                input="I",
                core_s=said(5e-4),
                pixels=40_000,
            ),
            HostOp(
                name="flip@cpu",
                title="Flip",
                op=Op.AUGMENT,
                library="L",
                processor="C",
                input="I",
                core_s=said(4e-4),
                pixels=40_000,
            ),
        ),
        "link": Link(
            name="link", title="Link", bytes_per_s=said(20e9), pinned_bytes_per_s=said(10e9)
        ),
        "worker_copy": Link(name="copy", title="Copy", bytes_per_s=said(1.2e9)),
        "hand_off": Link(name="hand-off", title="Hand-off", bytes_per_s=said(3e9)),
    }
    return Setting(**{**fields, **changes})  # type: ignore[arg-type]


def disk(**fields: object) -> Storage:
    return Storage(name="disk", title="Disk", **fields)  # type: ignore[arg-type]
