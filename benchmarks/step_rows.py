"""Published rates as cases of the step-time model: training.csv, one device's table, MLPerf's."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from stoker.records.zoo import Kind, Layers, Model, Precision, Sourced, Stack, Work
from stoker.theory.cases import Case, stem_of
from stoker.theory.roofline import MATRIX
from stoker.theory.validate import UnresolvedError, resolve
from stoker.zoo.load import Zoo

DATA = Path(__file__).parent / "data"
CHECKED = "2026-11-29"
# The big table is one device and one library: together it must not outweigh all other rows.
TABLE_WEIGHT = 0.1
_QUALITY_WEIGHT = {"A": 1.0, "B": 0.7, "C": 0.3}


class Observed(NamedTuple):
    """A published rate and the case that it belongs to."""

    row_id: str
    case: Case
    seconds: float  # of one of the model's units
    weight: float
    is_table: bool  # of the big single-device table
    is_free: bool  # of a model whose FLOPs nobody knows

    @property
    def is_text(self) -> bool:
        """A language model's rate."""
        return self.case.model.layers is Layers.LLM


def table(name: str) -> list[dict[str, str]]:
    """All rows of a published table."""
    with (DATA / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def published(zoo: Zoo) -> list[Observed]:
    """The rows of training.csv that can be resolved."""
    found = []
    for row in table("training"):
        if not row["throughput_per_accel"]:
            continue
        try:
            resolved = resolve(row, zoo, work_may_be_unknown=True)
        except UnresolvedError:
            continue
        rate = float(row["throughput_per_accel"]) * resolved.units
        found.append(
            Observed(
                row_id=row["row_id"],
                case=resolved.case,
                seconds=1 / rate,
                weight=_QUALITY_WEIGHT[row["quality"]],
                is_table=False,
                is_free=_is_free(resolved.case.model),
            )
        )
    return found


def _is_free(model: Model) -> bool:
    """Work or activations are unknown, so that only the model's own rates can scale it."""
    return model.forward_macs is None or model.activations is None


BENCHMARKS = {
    "resnet": ("resnet50@224", "img/s", "NHWC fused"),
    "bert": ("bert_large@512", "seq/s", ""),
    "ssd": ("ssd300_r34", "img/s", ""),
    "maskrcnn": ("maskrcnn_r50_fpn@800", "img/s", ""),
    "retinanet": ("retinanet_rx50@800", "img/s", ""),
    "unet3d": ("unet3d_mlperf", "samples/s", ""),
    "rnnt": ("rnnt_mlperf", "utt/s", ""),
    "dlrm": ("dlrm_v1", "samples/s", ""),
    "dlrm_dcnv2": ("dlrm_dcnv2", "samples/s", ""),
    "llama2_70b_lora": ("llama2_70b@8192", "samples/s", ""),
    "stable_diffusion": ("sd2", "img/s", ""),
}


def submissions(zoo: Zoo) -> list[Observed]:
    """Every MLPerf training result; most devices stand there many times, so each weighs little."""
    found = []
    for number, row in enumerate(table("training_mlperf_all")):
        model, unit, layout = BENCHMARKS[row["bench"]]
        words = {
            "model_id": model,
            "unit": unit,
            "layout": layout,
            "accel_id": row["accel_id"],
            "n_accel": row["n_accel"],
            "framework": row["framework"],
            "stack": "mlperf",
            "precision": "fp8/bf16 mixed" if row["bench"].endswith("lora") else "fp16 mixed",
            "input": "padding removed" if row["bench"] == "bert" else "",
            "batch_per_accel": str(float(row["global_batch"]) / float(row["n_accel"])),
        }
        try:
            resolved = resolve(words, zoo, work_may_be_unknown=True)
        except UnresolvedError:
            continue
        found.append(
            Observed(
                row_id=f"submission {number}",
                case=resolved.case,
                seconds=1 / (float(row["throughput_per_accel"]) * resolved.units),
                weight=TABLE_WEIGHT,
                is_table=True,
                is_free=_is_free(resolved.case.model),
            )
        )
    return found


def counted_models() -> dict[str, Model]:
    """Every network whose layers were counted, by name and size."""
    works: dict[str, dict[Work, tuple[float, ...]]] = {}
    parameters: dict[str, float] = {}
    for row in table("operations"):
        counts = tuple(float(row[key]) for key in ("macs", "read", "written", "calls"))
        works.setdefault(row["model_id"], {})[Work(row["work"])] = counts
        parameters[row["model_id"]] = float(row["parameters"])

    def number(value: float) -> Sourced:
        return Sourced(value, Kind.MEASURED, "counted", CHECKED)

    made = {}
    for name, mine in works.items():
        macs = sum(one[0] for one in mine.values())
        written = sum(one[2] for work, one in mine.items() if work in MATRIX)
        made[name] = msgspec.convert(
            {
                "name": name,
                "title": name,
                "family": stem_of(name),
                "layers": "conv",
                "unit": "sequence" if name.startswith("bert") else "image",
                "input": "",
                "operations": mine,
                "parameters": msgspec.to_builtins(number(parameters[name])),
                "forward_macs": msgspec.to_builtins(number(macs)),
                "activations": msgspec.to_builtins(number(written)),
            },
            Model,
        )
    return made


_CLASSES = {
    "conv": Layers.CONV,
    "grouped": Layers.GROUPED,
    "dwconv": Layers.DEPTHWISE,
    "attn": Layers.ATTENTION,
}


def big_table(zoo: Zoo) -> list[Observed]:
    """The rows of the single-device table whose layers were counted to the table's own totals."""
    counted = counted_models()
    device = zoo.accelerator("rtx3090")
    found = []
    for number, row in enumerate(table("training_timm3090_all")):
        model = counted.get(f"{row['model']}@{row['img_size']}")
        if model is None or not _agrees(model, row):
            continue
        layers = _CLASSES[row["klass"]]
        stack = Stack.NHWC_AMP if row["layout"] == "nhwc" else Stack.NCHW_AMP
        if layers is Layers.ATTENTION:
            stack = Stack.TRANSFORMER_AMP
        case = Case(
            model=msgspec.structs.replace(model, layers=layers),
            accelerator=device,
            stack=stack,
            precision=Precision.FP16,
            batch=float(row["batch"]),
            layout=row["layout"],
        )
        found.append(
            Observed(
                row_id=f"table {number}",
                case=case,
                seconds=1 / float(row["samples_per_s"]),
                weight=TABLE_WEIGHT,
                is_table=True,
                is_free=False,
            )
        )
    return found


def _agrees(model: Model, row: Mapping[str, str]) -> bool:
    """The table's totals, scaled to the training size, are those of the layers counted here."""
    scale = (float(row["img_size"]) / float(row["infer_img_size"])) ** 2
    macs, activations = model.forward_macs, model.activations
    if macs is None or activations is None or not float(row["gmacs"]):
        return False
    off_macs = math.log(float(row["gmacs"]) * 1e9 * scale / macs.value)
    off_activations = math.log(float(row["macts_m"]) * 1e6 * scale / activations.value)
    return abs(off_macs) < 0.10 and abs(off_activations) < 0.15
