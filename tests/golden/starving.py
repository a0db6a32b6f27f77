"""Hand-made diagnoses of runs that starve."""

from __future__ import annotations

from stoker.records.diagnosis import (
    Capacity,
    CoresAfter,
    CoresOn,
    Diagnosis,
    Dont,
    Evidence,
    FixCode,
    HostSummary,
    LedgerRow,
    Part,
    RankedFix,
    Step,
    Symptom,
    Verdict,
    VerdictCode,
)
from stoker.records.profile import (
    CostTrend,
    End,
    Environment,
    HostTruth,
    LegCode,
    LoaderFacts,
    Profile,
    SampleCost,
    Script,
)
from stoker.stats import Spread
from tests.golden.parts import ENVIRONMENT, SCRIPT, leg, row, stage


def serial_loader() -> Diagnosis:
    """No workers: loading and stepping take turns."""
    environment = ENVIRONMENT
    host = HostTruth(cores_owned=2.0, affinity=2, cpus_online=2, busy_of_owned=0.52)
    real = Spread(0.0718, 0.0709, 0.0727, 240)
    profile = Profile(
        script=SCRIPT,
        end=End.CONVERGED,
        legs={
            "R": leg(LegCode.REAL, real),
            "D": leg(LegCode.DEVICE, Spread(0.0300, 0.0298, 0.0303, 96)),
            "H": leg(LegCode.HOST, Spread(0.0302, 0.0300, 0.0305, 96)),
            "L": leg(LegCode.LOADER, Spread(0.0411, 0.0405, 0.0418, 80)),
        },
        scaling=(
            leg(LegCode.LOADER, Spread(0.0409, 0.0402, 0.0416, 24), workers=1, windows=1),
            leg(LegCode.LOADER, Spread(0.0214, 0.0209, 0.0220, 24), workers=2, windows=1),
        ),
        real=real,
        loader=LoaderFacts(
            workers=0, batch_size=8, dataset="TileFolder", batch_bytes=4_816_896, batch_objects=2
        ),
        host=host,
        environment=environment,
    )
    return Diagnosis(
        script=SCRIPT,
        symptom=Symptom(host_cpu_busy_of_owned=0.52, device_busy_reported=None),
        verdict=Verdict(
            code=VerdictCode.SERIAL_LOADER,
            sentence="The loader runs only while the step waits: 41.1 ms of loading come on top of "
            "a step of 30.0 ms, because the DataLoader has no workers.",
            lost_share=Spread(0.582, 0.575, 0.589),
            evidence=(
                Evidence(
                    claim="the step takes loading and model one after the other",
                    measured=Spread(0.0718, 0.0709, 0.0727),
                    unit="s",
                    compared_with="D + L = 71.1 ms",
                    leg="R",
                ),
                Evidence(
                    claim="a core stays idle meanwhile",
                    measured=Spread(0.52, 0.50, 0.54),
                    unit="share",
                    compared_with="2 cores owned",
                    leg="R",
                ),
            ),
            secondary=(VerdictCode.EPOCH_BOUNDARY,),
        ),
        step=Step(
            real_s=0.0718,
            real_median_s=0.0714,
            device_s=0.0300,
            host_s=0.0302,
            contended_s=None,
            loader_s=0.0411,
            au=0.418,
            batch_size=8,
            samples_per_s=111.4,
        ),
        ledger=(
            row(Part.DEVICE, 0.0300, 0.0298, 0.0303, "D"),
            row(Part.TRANSFER, 0.0002, -0.0002, 0.0006, "H−D"),
            row(Part.SERIAL, 0.0402, 0.0393, 0.0411, "R"),
            row(Part.EPOCH_EDGE, 0.0011, 0.0008, 0.0014, "R"),
            row(Part.JITTER, 0.0003, -0.0005, 0.0012, "R"),
        ),
        stages=(),
        host=HostSummary(
            cores_owned=2.0, affinity=2, cpus_online=2, busy_of_owned=0.52, cores_needed=1.4
        ),
        fixes=(
            RankedFix(
                code=FixCode.OVERLAP,
                title="load in worker processes while the step runs",
                speedup=Spread(2.31, 2.24, 2.38),
                how="DataLoader(…, num_workers=2)",
                costs="memory of the worker processes",
                preconditions=(
                    "the data set can be pickled or forked",
                    "the order of random numbers changes",
                ),
                effort=1,
                memory_bytes=319_267_584,
            ),
            RankedFix(
                code=FixCode.PACK,
                title="store once what gives the same result each time, and read that",
                speedup=None,
                how="stoker pack --from DIAGNOSIS PACK stores samples as they are before the first "
                "random operation (packed once: Resize | in every epoch: RandomCrop); stoker run "
                "--apply pack=PACK then reads them",
                costs="disk space, and one pass over the data",
                preconditions=("the deterministic part does not change between runs",),
                effort=3,
                disk_bytes=963_379_200,
                minutes=0.14,
            ),
        ),
        dont=(
            Dont(
                code=FixCode.FASTER_ACCELERATOR,
                speedup=Spread(1.27, 1.25, 1.29),
                why="at twice the pace of the device; the loading time stays, and 72% of the step "
                "would be lost instead of 58%",
            ),
            Dont(
                code=FixCode.BIGGER_BATCH,
                speedup=Spread(1.0, 0.99, 1.01),
                why="loading grows alike",
                step_s=Spread(0.1935, 0.19, 0.197),
                au=Spread(0.42, 0.41, 0.43),
            ),
        ),
        capacity=Capacity(
            cores_per_accelerator=1.4,
            sentence="This workload needs 1.4 cores for one accelerator of this pace.",
            table=tuple(
                CoresOn(
                    accelerator=name,
                    title=name,
                    times=times,
                    source="zoo's dense 16-bit rates and memory bandwidths, against those of v100",
                    step_s=Spread.exact(0.0812 / times.median),
                    rows=tuple(
                        CoresAfter(after=code, cores=times.scaled(cores))
                        for code, cores in ((None, 1.4), (FixCode.PACK, 0.5))
                    ),
                    irreducible=times.scaled(0.3),
                )
                for name, times in (
                    ("this one", Spread.exact(1.0)),
                    ("a100-sxm4-80", Spread(2.4, 2.26, 2.5)),
                )
            ),
        ),
        profile=profile,
        environment=environment,
    )


def cpu_saturated() -> Diagnosis:
    """Workers fill every owned core and still fall behind; stages and a quota are known."""
    environment = Environment(
        stoker="0.1.0",
        python="3.12.4",
        machine="Linux 5.15 x86_64",
        versions={"torch": "2.13.0"},
        device="cuda:0 NVIDIA A100",
        writes="overlay",
        warmup_discarded=31,
        overhead_share=0.0071,
        notes=("pinning failed: no CUDA device in the parent process",),
    )
    host = HostTruth(cores_owned=2.0, affinity=12, quota=2.0, cpus_online=12, busy_of_owned=0.99)
    real = Spread(0.312, 0.305, 0.320, 120)
    script = Script(
        argv=(
            "-m",
            "trainer.main",
            "--config",
            "configs/resnet50-imagenet-512-augmented.yaml",
            "--workers=2",
        ),
        cwd="/data/run",
    )
    stages = (
        stage("read", 0.0021, 0.0004, 0.0016, 0.0001, calls=1.0, deterministic=True),
        stage("decode", 0.0489, 0.0467, 0.0, 0.0022, calls=1.0, deterministic=True),
        stage("RandomResizedCrop", 0.0162, 0.0158, 0.0, 0.0004, calls=1.0, deterministic=False),
        stage("collate", 0.000_31, 0.000_30, 0.0, 0.0, calls=0.125, deterministic=None),
        stage(
            "hand-off",
            *(0.000_42, 0.000_38, 0.000_04, 0.0),
            calls=0.125,
            deterministic=None,
            where="beside",
        ),
    )
    slowest = (
        SampleCost(
            index=4711,
            wall_s=0.412,
            cpu_s=0.39,
            path="/data/imagenet/train/n02105855/n02105855_2933.JPEG",
            size=15_443_000,
            stage="decode",
        ),
        SampleCost(index=8, wall_s=0.171, cpu_s=0.169, stage="RandomResizedCrop"),
        SampleCost(index=9, wall_s=0.071, cpu_s=0.070, stage="decode"),
    )
    trend = CostTrend(samples=1200, spread=1.61, median_s=0.0652, per_byte_s=2.4e-8)
    return Diagnosis(
        script=script,
        symptom=Symptom(host_cpu_busy_of_owned=0.99, device_busy_reported=0.61),
        verdict=Verdict(
            code=VerdictCode.CPU_SATURATED,
            kind="deterministic",
            sentence="Two workers keep both owned cores busy and still need 311 ms for a batch "
            "that the device uses up in 80 ms; decoding, the same every epoch, is 73% of it.",
            lost_share=Spread(0.744, 0.72, 0.76),
            evidence=(
                Evidence(
                    claim="the loader alone is slower than the step with data at hand",
                    measured=Spread(0.311, 0.305, 0.318),
                    unit="s",
                    compared_with="C = 81 ms",
                    leg="L",
                ),
                Evidence(
                    claim="the owned cores are full",
                    measured=Spread(0.99, 0.97, 1.0),
                    unit="share",
                    compared_with="≥ 90% of 2 cores",
                    leg="R",
                ),
                Evidence(
                    claim="a deterministic stage dominates",
                    measured=Spread(0.73, 0.71, 0.75),
                    unit="share",
                    compared_with="random stages 24%",
                    leg="stages",
                ),
            ),
        ),
        step=Step(
            real_s=0.312,
            real_median_s=0.311,
            device_s=0.080,
            host_s=0.0832,
            contended_s=0.0810,
            loader_s=0.311,
            au=0.256,
            batch_size=8,
            samples_per_s=25.6,
        ),
        ledger=(
            row(Part.DEVICE, 0.0800, 0.0792, 0.0809, "D"),
            row(Part.TRANSFER, 0.0032, 0.0021, 0.0043, "H−D"),
            LedgerRow(part=Part.CONTENTION, seconds=-0.0022, low=-0.0041, high=-0.0003, leg="C−H"),
            row(Part.RATE_DEFICIT, 0.2300, 0.2220, 0.2380, "Lc−C"),
            row(Part.EPOCH_EDGE, 0.0000, 0.0000, 0.0000, "R"),
            row(Part.JITTER, 0.0010, -0.0080, 0.0100, "R"),
        ),
        stages=stages,
        host=HostSummary(
            cores_owned=2.0,
            affinity=12,
            worker_affinity=12,
            quota=2.0,
            cpus_online=12,
            busy_of_owned=0.99,
            cores_needed=7.46,
            throttled_s=4.2,
            throttled_share=0.11,
            shm_needed_bytes=96_000_000,
            shm_free_bytes=64_000_000,
        ),
        fixes=(
            RankedFix(
                code=FixCode.PACK,
                title="store once what gives the same result each time, and read that",
                speedup=Spread(3.62, 3.41, 3.83),
                how="stoker pack --from DIAGNOSIS PACK stores samples as they are before the first "
                "random operation (RandomResizedCrop and what follows it stays); stoker run "
                "--apply pack=PACK then reads them",
                costs="disk space, and one pass over the data",
                preconditions=("the deterministic part does not change between runs",),
                effort=3,
                disk_bytes=771_000_000_000,
                minutes=712.0,
            ),
            RankedFix(
                code=FixCode.REDUCED_DECODE,
                title="decode at 1/2 of the sides, from the file on",
                speedup=None,
                how='image.draft("RGB", (side, side)) between Image.open and the first pixel',
                costs="samples differ by a few grey levels from those decoded in full and resized",
                preconditions=(
                    "pictures are resized as a whole, or crops stay larger than what they are "
                    "resized to",
                ),
                effort=2,
                withheld="it depends on the pictures: time some of them",
            ),
            RankedFix(
                code=FixCode.ALLOCATOR,
                title="let the workers keep the memory that they free",
                speedup=None,
                measured=Spread(1.19, 1.17, 1.22),
                how="stoker run --apply allocator; or in the script's environment "
                "MALLOC_MMAP_THRESHOLD_=33554432 MALLOC_TRIM_THRESHOLD_=536870912",
                costs="memory that workers would have given back",
                preconditions=("the C library is glibc",),
                effort=1,
                withheld="only a trial shows it: stoker doctor --try",
            ),
        ),
        dont=(
            Dont(
                code=FixCode.WORKERS,
                speedup=Spread(1.0, 0.97, 1.03),
                why="the owned cores are full",
            ),
            Dont(
                code=FixCode.SMALLER_MODEL,
                speedup=Spread(1.0, 0.99, 1.01),
                why="the step would wait for the same loader",
            ),
        ),
        capacity=Capacity(
            cores_per_accelerator=7.46,
            sentence="One accelerator of this pace needs 7.5 cores for this input; two are owned.",
        ),
        profile=Profile(
            script=script,
            end=End.BUDGET,
            legs={
                "R": leg(LegCode.REAL, real, workers=2),
                "D": leg(LegCode.DEVICE, Spread(0.080, 0.0792, 0.0809, 64)),
                "H": leg(LegCode.HOST, Spread(0.0832, 0.082, 0.084, 64)),
                "C": leg(LegCode.CONTENDED, Spread(0.081, 0.0795, 0.083, 64), workers=2),
                "L": leg(LegCode.LOADER, Spread(0.311, 0.305, 0.318, 40), workers=2),
                "N": leg(LegCode.NULL, Spread(0.0018, 0.0016, 0.0021, 40), workers=2, windows=1),
            },
            scaling=(
                leg(LegCode.LOADER, Spread(0.601, 0.58, 0.62, 12), workers=1, windows=1),
                leg(LegCode.LOADER, Spread(0.313, 0.3, 0.33, 12), workers=4, windows=1),
            ),
            real=real,
            loader=LoaderFacts(
                workers=2,
                batch_size=8,
                prefetch_factor=2,
                persistent_workers=True,
                pin_memory=True,
                start_method="fork",
                dataset="ImageFolder",
                batch_bytes=4_816_896,
            ),
            stages=stages,
            slowest=slowest,
            trend=trend,
            host=host,
            environment=environment,
        ),
        environment=environment,
    )
