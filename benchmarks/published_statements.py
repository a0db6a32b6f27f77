"""Claim: for each published statement the forecast names the right limit, or the right order.

Statements of vendors, benchmarks and papers about whole hosts, worked out from the zoo's numbers
by the code that `stoker predict` uses. What a statement gives as its own set-up is an input here;
what it reports is compared.

    python -m benchmarks.published_statements
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import msgspec

from benchmarks import record
from stoker.records.scenario import (
    Forecast,
    LoaderSettings,
    Machine,
    Resource,
    Scenario,
    StageCost,
    Workload,
)
from stoker.records.zoo import Stack
from stoker.stats import Spread
from stoker.theory import whatif
from stoker.theory.assume import assumed
from stoker.theory.pipeline import forecast
from stoker.theory.plan import needs
from stoker.theory.setting import Setting
from stoker.zoo.load import Zoo, load_zoo

CLAIM = "Each published statement is replayed with the right limit, or in the right order."


class Replay(NamedTuple):
    """A statement, what it says, what is forecast, and whether they agree."""

    statement: str
    published: str
    forecast: str
    agrees: bool
    numbers: dict[str, float]
    source: str


def resnet_on(zoo: Zoo, host: str, *, stack: Stack, workers: int) -> Setting:
    """ResNet-50 on a host of the zoo, with the usual pipeline of ImageNet."""
    entry, dataset = zoo.host(host), zoo.dataset("imagenet")
    assert entry.accelerator is not None
    accelerator = zoo.accelerator(entry.accelerator)
    assert accelerator.link is not None
    return Setting(
        model=zoo.model("resnet50"),
        accelerator=accelerator,
        batch=256,
        workers=workers,
        stack=stack,
        host=entry,
        accelerators=entry.accelerators,
        dataset=dataset,
        ops=tuple(zoo.op(name) for name in dataset.ops),
        link=zoo.link(accelerator.link),
        worker_copy=zoo.link("worker-copy"),
        hand_off=zoo.link("hand-off"),
    )


def hosts_with_a_cpu_pipeline(zoo: Zoo) -> list[Replay]:
    """Six cores an A100 are too few for a Pillow pipeline, sixteen are enough."""
    p4d = forecast(assumed(resnet_on(zoo, "p4d", stack=Stack.NHWC_AMP, workers=8)).scenario)
    dgx = forecast(assumed(resnet_on(zoo, "dgx-a100", stack=Stack.NHWC_AMP, workers=16)).scenario)
    rate = p4d.samples_per_s
    return [
        Replay(
            "p4d, 6 cores an A100, CPU pipeline",
            "input-bound: 1,500 to 2,000 of 2,470 img/s",
            f"{p4d.limit}: {rate.median:,.0f} img/s",
            p4d.limit is Resource.CORES and rate.low <= 2000 and rate.high >= 1500,
            {"samples_per_s": rate.median, "au": p4d.au.median},
            "vCPU counts of AWS; pipeline rates of torchvision on such cores",
        ),
        Replay(
            "DGX A100, 16 cores an A100, CPU pipeline",
            "not input-bound: about 4,000 img/s prepared",
            f"{dgx.limit}: {256 / dgx.produce_s.median:,.0f} img/s prepared",
            dgx.limit is Resource.ACCELERATOR,
            {"prepared_per_s": 256 / dgx.produce_s.median, "au": dgx.au.median},
            "MLPerf system descriptions; pipeline rates as above",
        ),
    ]


def hosts_with_dali(zoo: Zoo) -> list[Replay]:
    """MLPerf runs that kept up with DALI: the cores were enough, the accelerator the limit."""
    replays = []
    for host, workers, published, per_host in (
        ("dgx-a100", 16, "mlcommons/training_results_v2.1 NVIDIA dgxa100_ngc22.04_mxnet", 27_180),
        ("dgx-h100", 14, "mlcommons/training_results_v4.0 NVIDIA eos_ngc24.04_mxnet", 57_280),
    ):
        base = resnet_on(zoo, host, stack=Stack.FUSED, workers=workers)
        overlapped = msgspec.structs.replace(base, transfer_overlapped=True)
        made = whatif.dali(assumed(overlapped).scenario)
        # The fused stack's own rates were measured with DALI on the accelerator: nothing is added.
        step = assumed(overlapped).step.seconds
        work = msgspec.structs.replace(made.workload, device_s=step)
        found = forecast(msgspec.structs.replace(made, workload=work))
        rate = 8 * found.samples_per_s.median
        replays.append(
            Replay(
                f"{host} with DALI keeps its accelerators fed",
                f"kept up: {per_host:,} img/s a host",
                f"{found.limit}: {rate:,.0f} img/s a host",
                found.limit is Resource.ACCELERATOR,
                {"samples_per_s": rate, "au": found.au.median},
                published,
            )
        )
    return replays


# Seconds of a step and stored bytes of a sample: mlcommons/storage configs/dlio/workload @caa90c9c.
MLPERF_STORAGE = {
    "3D U-Net": (7, {"a100": 0.636, "h100": 0.323}, 146.6e6),
    "CosmoFlow": (1, {"a100": 5.51e-3, "h100": 3.50e-3}, 2_828_486.0),
    "ResNet-50": (400, {"a100": 0.435, "h100": 0.224}, 114_660.0),
}
# The share of the step's time in which the emulated accelerator must work, by the rules.
MLPERF_AU = {"3D U-Net": 0.90, "CosmoFlow": 0.70, "ResNet-50": 0.90}


def fed_from_storage(batch: int, step_s: float, stored: float, rate: float) -> Scenario:
    """One emulated accelerator that reads everything and decodes nothing."""
    return Scenario(
        machine=Machine(cores=8, storage_bytes_per_s=rate),
        workload=Workload(
            batch_size=batch, stages=(), device_s=Spread.exact(step_s), stored_bytes=stored
        ),
        loader=LoaderSettings(workers=8),
    )


def mlperf_storage() -> list[Replay]:
    """What each workload asks of its store, and that a store at the rule's edge just passes."""
    rates = {}
    passes = True
    for name, (batch, steps, stored) in MLPERF_STORAGE.items():
        for device, step_s in steps.items():
            asked = needs(fed_from_storage(batch, step_s, stored, 1.0), step_s / MLPERF_AU[name])
            assert asked.storage_bytes_per_s is not None
            rates[f"{name} {device}"] = asked.storage_bytes_per_s
            for share in (1.001, 0.999):
                edge = fed_from_storage(batch, step_s, stored, share * asked.storage_bytes_per_s)
                fed = forecast(edge).au.median >= MLPERF_AU[name]
                passes = passes and fed is (share > 1)
    order = sorted(rates, key=rates.__getitem__, reverse=True)
    expected = [f"{name} {device}" for name in MLPERF_STORAGE for device in ("h100", "a100")]
    return [
        Replay(
            "MLPerf Storage: bytes/s for one accelerator at the rule's AU",
            "3D U-Net > CosmoFlow > ResNet-50, H100 > A100",
            ", ".join(f"{name} {rates[name] / 1e6:,.0f} MB/s" for name in order),
            order == expected and passes,
            rates,
            "mlcommons/storage rules and workload configurations @caa90c9c",
        )
    ]


def decoding(seconds: float) -> tuple[StageCost, ...]:
    """A pipeline that costs so much CPU a sample."""
    cost = StageCost(
        stage="pipeline",
        resource=Resource.CORES,
        per_sample=Spread.exact(seconds),
        source="published",
    )
    return (cost,)


def presto(zoo: Zoo) -> list[Replay]:
    """Where to cut ImageNet's pipeline, on 8 vCPUs and a store of hard disks behind 10 Gb/s.

    Loading only, so the accelerator takes no time. Sizes: 146.9 GB of files, 347 GB resized as
    uint8, four times that as float32, over 1.28 million samples (Isenko et al., SIGMOD 2022).
    """
    store = zoo.storage("ceph-hdd")
    assert store.bytes_per_s is not None
    assert store.reads_per_s is not None
    decode = zoo.op("decode-jpeg-tensorflow@xeon-8581c").core_s.value
    resize = zoo.op("random-resized-crop-pillow").core_s.value
    centre = zoo.op("normalize-pillow").core_s.value / 4  # of a quarter of the pixels
    cuts = {
        "unprocessed": (114_660.0, 1.0, decode + resize + centre, 107.0, Resource.STORAGE),
        "concatenated": (114_660.0, 1e-3, decode + resize + centre, 962.0, Resource.CORES),
        "resized": (347e9 / 1.281e6, 1e-3, centre, 1789.0, Resource.STORAGE),
        "pixel-centred": (4 * 347e9 / 1.281e6, 1e-3, 0.0, 576.0, Resource.STORAGE),
    }
    rates, limits_agree = {}, True
    for name, (stored, reads, cpu_s, _, limit) in cuts.items():
        found = forecast(
            Scenario(
                machine=Machine(
                    cores=4,  # 8 vCPUs
                    storage_bytes_per_s=store.bytes_per_s.value,
                    storage_reads_per_s=store.reads_per_s.value,
                ),
                workload=Workload(
                    batch_size=100,
                    stages=decoding(cpu_s) if cpu_s else (),
                    device_s=Spread.exact(1e-6),
                    stored_bytes=stored,
                    reads=reads,
                ),
                loader=LoaderSettings(workers=8),
            )
        )
        rates[name] = found.samples_per_s.median
        limits_agree = limits_agree and found.limit is limit
    published = {name: cut[3] for name, cut in cuts.items()}
    order, expected = (sorted(values, key=values.__getitem__) for values in (rates, published))
    return [
        Replay(
            "PRESTO: where to cut ImageNet's pipeline",
            ", ".join(f"{name} {published[name]:,.0f}/s" for name in expected),
            ", ".join(f"{name} {rates[name]:,.0f}/s" for name in order),
            order == expected and limits_agree,
            rates,
            "Isenko et al., SIGMOD 2022, ImageNet",
        )
    ]


def ffcv(zoo: Zoo) -> list[Replay]:
    """Decoded data are the faster ones from memory and the slower ones from a network volume."""
    host = zoo.host("p3dn.24xlarge")
    assert host.cores is not None
    assert host.volume_bytes_per_s is not None
    # CPU of a sample from the rates out of memory; bytes of a stored sample from its pixels. For
    # JPEGs of 512 pixels no size is stated: the mean of ImageNet's files stands in.
    kinds = {"JPEG 512": (31_278.0, 114_660.0), "raw 256": (172_801.0, 256 * 256 * 3.0)}
    rates = {}
    for kind, (from_memory, stored) in kinds.items():
        for place, rate in (("memory", None), ("volume", host.volume_bytes_per_s.value)):
            found = forecast(
                Scenario(
                    machine=Machine(cores=host.cores.value, storage_bytes_per_s=rate),
                    workload=Workload(
                        batch_size=1000,
                        stages=decoding(host.cores.value / from_memory),
                        device_s=Spread.exact(1e-6),
                        stored_bytes=stored,
                    ),
                    loader=LoaderSettings(workers=48),
                )
            )
            rates[f"{kind}, {place}"] = found.samples_per_s.median
    return [
        Replay(
            "FFCV on p3dn: raw against JPEG",
            "memory 172,801 > 31,278; volume 6,870 < 16,631",
            ", ".join(f"{name} {rate:,.0f}/s" for name, rate in rates.items()),
            rates["raw 256, memory"] > rates["JPEG 512, memory"]
            and rates["raw 256, volume"] < rates["JPEG 512, volume"],
            rates,
            "libffcv/ffcv docs/benchmarks.rst @3a12966b",
        )
    ]


def worker_counts(zoo: Zoo) -> list[Replay]:
    """More workers help in proportion until the hand-off takes no more."""
    one = 1 / 735  # seconds of a sample without workers
    found = {count: _loading(one, workers=count).samples_per_s.median for count in (2, 8)}
    streamed = Replay(
        "litData: JPEGs from S3 with 2 and 8 workers",
        "1,475 and 5,718 img/s",
        " and ".join(f"{rate:,.0f}" for rate in found.values()) + " img/s",
        abs(found[2] / 1475 - 1) < 0.1 and abs(found[8] / 5718 - 1) < 0.1,
        {str(count): rate for count, rate in found.items()},
        "Lightning-AI/litData README @8805bae0",
    )
    copy = zoo.link("worker-copy").bytes_per_s.value
    size = 500 * 400 * 3.0
    # Arrays that are not collated cross one by one: 0.9 to 1.7 GB/s; the middle of the two.
    crossing = 1.25e9
    eight = _loading(1 / 664 + size / copy, workers=8, cores=8, hand_off_s=32 * size / crossing)
    two = _loading(1 / 664 + size / copy, workers=2, cores=8, hand_off_s=32 * size / crossing)
    flat = Replay(
        "torch DataLoader, whole images uncollated, 2 and 8 workers",
        "1,061 and 1,402 img/s: flat",
        f"{two.samples_per_s.median:,.0f} and {eight.samples_per_s.median:,.0f} img/s: "
        f"{eight.limit} at 8",
        eight.limit is Resource.MEMORY and two.limit is Resource.CORES,
        {"2": two.samples_per_s.median, "8": eight.samples_per_s.median},
        "ternaus/imread_benchmark EPYC 9B14, opencv @f869db8",
    )
    return [streamed, flat]


def _loading(cpu_s: float, *, workers: int, cores: float = 64, hand_off_s: float = 0.0) -> Forecast:
    """Batches of 32, drained without a step."""
    return forecast(
        Scenario(
            machine=Machine(cores=cores),
            workload=Workload(batch_size=32, stages=decoding(cpu_s), device_s=Spread.exact(1e-6)),
            loader=LoaderSettings(workers=workers, hand_off_s=hand_off_s),
        )
    )


def replays() -> list[Replay]:
    """All statements."""
    zoo = load_zoo()
    return [
        *hosts_with_a_cpu_pipeline(zoo),
        *hosts_with_dali(zoo),
        *mlperf_storage(),
        *presto(zoo),
        *ffcv(zoo),
        *worker_counts(zoo),
    ]


def main() -> int:
    """Replay them all."""
    argparse.ArgumentParser(description=CLAIM).parse_args()
    made = {f"{number:02}": replay for number, replay in enumerate(replays(), start=1)}
    holds = record.write(
        "published_statements",
        claim=CLAIM,
        columns=["statement", "published", "forecast", "source"],
        rows={
            key: [one.statement, one.published, one.forecast, one.source]
            for key, one in made.items()
        },
        numbers={key: one.numbers for key, one in made.items()},
        passed={key: one.agrees for key, one in made.items()},
    )
    return 0 if holds else 1


if __name__ == "__main__":
    raise SystemExit(main())
