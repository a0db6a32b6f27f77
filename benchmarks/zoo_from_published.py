"""Writes the zoo's TOML from the published tables in benchmarks/data.

Run it after editing a table: `python -m benchmarks.zoo_from_published`. Numbers are copied, never
made up: what the tables call unsourced becomes an `estimate`, and what is derived here says how.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from benchmarks.zoo_hosts import hosts
from benchmarks.zoo_toml import ZOO, Book, Entry, Row, rows, write
from stoker.theory.validate import infer_precision, infer_stack
from stoker.zoo.load import Zoo

NO_SOURCE = "no source found: from memory of the maker's data sheet"

ALIASES: dict[str, tuple[str, ...]] = {
    "V100-SXM2-16": ("v100", "v100-16", "tesla v100", "v100 16GB"),
    "V100-SXM2-32": ("v100-32", "v100 32GB"),
    "T4": ("tesla t4",),
    "RTX8000": ("quadro rtx 8000",),
    "A100-SXM4-40": ("a100-40", "a100-sxm-40", "a100 40GB"),
    "A100-SXM4-80": ("a100", "a100-80", "a100-sxm", "a100-sxm-80"),
    "A100-PCIe-40": ("a100-pcie-40gb",),
    "A100-PCIe-80": ("a100-pcie", "a100 80GB PCIe"),
    "RTXA4000": ("a4000",),
    "RTXA5000": ("a5000",),
    "RTXA6000": ("a6000",),
    "RTX2080Ti": ("2080ti", "geforce rtx 2080 ti"),
    "RTX3090": ("3090", "geforce rtx 3090"),
    "RTX6000Ada": ("rtx 6000 ada generation", "6000ada"),
    "RTX4090": ("4090", "geforce rtx 4090"),
    "RTX5090": ("5090", "geforce rtx 5090"),
    "H100-PCIe-80": ("h100-pcie",),
    "H100-SXM5-80": ("h100", "h100-sxm", "h100-80", "h100 80GB SXM"),
    "GH200-96": ("gh200", "grace hopper"),
    "H200-SXM-141": ("h200", "h200-sxm"),
    "H200-NVL-141": ("h200-nvl",),
    "B200-SXM-180": ("b200", "b200-sxm"),
    "GB200-186": ("gb200",),
    "MI250X": ("instinct mi250x",),
    "MI300X": ("instinct mi300x",),
    "MI325X": ("instinct mi325x",),
    "RX7900XTX": ("7900xtx", "radeon rx 7900 xtx"),
    "GAUDI1": ("gaudi", "hl-205"),
    "GAUDI2": ("gaudi-2",),
    "GAUDI3": ("gaudi-3",),
    "TPUv2": ("tpu-v2",),
    "TPUv3": ("tpu-v3",),
    "TPUv4": ("tpu-v4",),
    "TPUv5e": ("tpu-v5e", "v5e"),
    "TPUv5p": ("tpu-v5p", "v5p"),
    "TPUv6e": ("tpu-v6e", "trillium", "v6e"),
    "TPUv7": ("tpu-v7", "ironwood"),
    "TRN2": ("trainium2",),
    "GC200": ("ipu", "graphcore gc200"),
}
LINKS = {
    "PCIe3 x16": "pcie3-x16",
    "PCIe4 x16": "pcie4-x16",
    "PCIe5 x16": "pcie5-x16",
    "PCIe4": "pcie4-x16",
    "PCIe5": "pcie5-x16",
    "NVLink-C2C": "nvlink-c2c",
}
# Tensor cores from Turing to Hopper multiply int8 at twice the dense fp16 rate (NVIDIA Turing,
# Ampere and Hopper architecture whitepapers); CDNA3 likewise.
INT8_TWICE_FP16 = {"Turing", "Ampere", "Ada", "Hopper", "CDNA3"}


def machines(folder: Path) -> None:
    """machines/*.toml, one file a vendor."""
    by_vendor: dict[str, list[Row]] = {}
    for row in rows("accelerators"):
        by_vendor.setdefault(row["vendor"], []).append(row)
    for vendor, group in by_vendor.items():
        book = Book()
        entries = [machine(row, book) for row in group]
        write(folder / f"machines/{vendor.lower()}.toml", book, entries)


def machine(row: Row, book: Book) -> Entry:
    """One accelerator."""
    unsourced = row["unsourced_fields"].split(",")
    nothing = "all" in unsourced or row["source"].startswith("unsourced")
    made = Entry(
        row["accel_id"].lower(),
        book,
        source=NO_SOURCE if nothing else row["source"],
        kind="estimate" if nothing else "datasheet",
    )
    made.put("title", row["name"])
    made.put("vendor", row["vendor"])
    made.put("architecture", architecture(row))
    if row["accel_id"] in ALIASES:
        made.put("aliases", ALIASES[row["accel_id"]])

    def number(key: str, column: str, scale: float, *short: str) -> None:
        if not row[column]:
            return
        doubtful = not nothing and any(name in unsourced for name in (column, *short))
        value = float(row[column]) * scale
        if doubtful:
            made.number(key, value, kind="estimate", source=NO_SOURCE)
        else:
            made.number(key, value)

    number("peak_flops.fp32", "fp32_tflops", 1e12, "fp32")
    number("peak_flops.tf32", "tf32_tflops", 1e12, "tf32")
    number("peak_flops.bf16", "bf16_dense_tflops", 1e12, "bf16")
    number("peak_flops.fp16", "fp16_dense_tflops", 1e12, "fp16")
    number("peak_flops.fp8", "fp8_dense_tflops", 1e12, "fp8")
    if row["arch"] in INT8_TWICE_FP16 and row["fp16_dense_tflops"]:
        doubled = 2e12 * float(row["fp16_dense_tflops"])
        made.number(
            "peak_flops.int8",
            doubled,
            kind="estimate",
            source="twice the dense fp16 rate, as the maker's whitepapers give for this family",
        )
    number("memory_bytes", "mem_gb", 1e9, "mem", "mem_gb")
    number("memory_bytes_per_s", "mem_bw_gbs", 1e9, "mem_bw")
    number("power_w", "tdp_w", 1.0, "tdp")
    if row["host_link"] in LINKS:
        made.put("link", LINKS[row["host_link"]])
    number("link_bytes_per_s", "host_link_gbs_per_dir", 1e9, "host_link")
    if row["measured_matmul_bf16_tflops"]:
        made.number(
            "matmul_flops",
            float(row["measured_matmul_bf16_tflops"]) * 1e12,
            kind="measured",
            source="stas00/ml-engineering compute/accelerator/benchmarks @744d01e1 (MAMF)",
        )
    if row["notes"]:
        made.put("notes", row["notes"])
    return made


def architecture(row: Row) -> str:
    """The chip family: Ampere's GA100 (A100, A30) is another chip than its GA102 (A40, RTX)."""
    if row["arch"] != "Ampere":
        return row["arch"].lower()
    return "ampere-ga100" if row["accel_id"].startswith(("A100", "A30")) else "ampere-ga102"


LAYERS = {
    "conv": "conv",
    "grouped": "grouped",
    "dwconv": "depthwise",
    "attn": "attention",
    "llm": "llm",
    "detect": "conv",
    "seg": "conv",
}
MODEL_ALIASES: dict[str, tuple[str, ...]] = {
    "resnet50@224": ("resnet-50", "rn50"),
    "vit_base_patch16_224@224": ("vit-b-16", "vit-base", "vit_base_patch16"),
    "vit_large_patch16_224@224": ("vit-l-16", "vit-large"),
    "vit_small_patch16_224@224": ("vit-s-16", "vit-small"),
    "vit_tiny_patch16_224@224": ("vit-tiny",),
    "swin_tiny_patch4_window7_224@224": ("swin-t",),
    "swin_small_patch4_window7_224@224": ("swin-s",),
    "swin_base_patch4_window7_224@224": ("swin-b",),
    "deit_base_patch16_224@224": ("deit-base",),
    "deit_small_patch16_224@224": ("deit-small",),
    "bert_base@128": (),
    "gpt2_124m@1024": ("gpt2", "gpt2-small"),
    "gpt2_350m@1024": ("gpt2-medium",),
    "gpt2_1558m@1024": ("gpt2-xl",),
    "llama2_7b@4096": ("llama-2-7b",),
    "llama2_13b@4096": ("llama-2-13b",),
    "llama2_70b@4096": ("llama-2-70b",),
    "llama3_8b@8192": ("llama-3-8b", "llama-3.1-8b"),
    "llama3_70b@8192": ("llama-3-70b", "llama-3.1-70b"),
    "tinyllama_1b@2048": ("tinyllama",),
    "sd2": ("stable-diffusion-2",),
}
# The size that a bare name means, first match wins: ImageNet's, then a model's own.
DEFAULT_SIZES = ("224", "299", "2048", "512", "1024", "4096", "8192", "288", "384", "380", "800")


def file_of_model(row: Row) -> str:
    """Which file a model stands in."""
    if row["klass"] == "llm":
        return "language"
    if row["per"] == "sequence":
        return "encoders"
    if row["klass"] in ("conv", "grouped", "dwconv", "attn"):
        return {"conv": "convolution", "grouped": "grouped", "dwconv": "depthwise"}.get(
            row["klass"], "vision-transformers"
        )
    return "others"


COUNTED = "counted from the layers of timm 1.0.31 or BERT by benchmarks/count_operations.py"


def operations() -> dict[str, dict[str, tuple[float, float, float, float]]]:
    """Counted operations of each network: kind of work -> (MACs, read, written, calls)."""
    found: dict[str, dict[str, tuple[float, float, float, float]]] = {}
    for row in rows("operations"):
        counts = tuple(float(row[key]) for key in ("macs", "read", "written", "calls"))
        found.setdefault(row["model_id"], {})[row["work"]] = counts  # type: ignore[assignment]
    return found


def models(folder: Path) -> None:
    """models/*.toml, one file a kind of network."""
    table = rows("models")
    counted = operations()
    sizes: dict[str, list[str]] = {}
    for row in table:
        stem, _, size = row["model_id"].partition("@")
        sizes.setdefault(stem, []).append(size)
    books: dict[str, tuple[Book, list[Entry]]] = {}
    for row in table:
        book, entries = books.setdefault(file_of_model(row), (Book(), []))
        made = model(row, book, sizes)
        for work, counts in counted.get(row["model_id"], {}).items():
            made.counts(f"operations.{work}", counts)
        if row["model_id"] in counted:
            made.put("operations_source", COUNTED)
        entries.append(made)
    book, entries = books["encoders"]
    entries += [
        counted_encoder(name, counts, book)
        for name, counts in counted.items()
        if name not in {row["model_id"] for row in table} and name.startswith("bert")
    ]
    for name, (book, entries) in books.items():
        write(folder / f"models/{name}.toml", book, entries)


def counted_encoder(
    name: str, counts: Mapping[str, tuple[float, float, float, float]], book: Book
) -> Entry:
    """BERT at a length that the tables lack, all of it counted."""
    stem, _, tokens = name.partition("@")
    made = Entry(name, book, source=COUNTED, kind="measured")
    made.put("title", {"bert_base": "BERT-base", "bert_large": "BERT-large"}[stem])
    made.put("family", {"bert_base": "BERT-base", "bert_large": "BERT-large"}[stem])
    made.put("layers", "attention")
    made.put("unit", "sequence")
    made.put("input", f"seq {tokens}")
    made.number(
        "parameters",
        next(float(row["parameters"]) for row in rows("operations") if row["model_id"] == name),
    )
    made.number("forward_macs", sum(one[0] for one in counts.values()))
    made.number("activations", sum(counts[work][2] for work in ("linear", "matmul")))
    made.put("tokens", int(tokens))
    for work, values in counts.items():
        made.counts(f"operations.{work}", values)
    made.put("operations_source", COUNTED)
    return made


def model(row: Row, book: Book, sizes: Mapping[str, list[str]]) -> Entry:
    """One model at one size."""
    identity = row["model_id"]
    stem, _, size = identity.partition("@")
    source = row["source"]
    guessed = source.startswith(("unsourced", "FLOPs not found"))
    kind = (
        "estimate" if guessed else "measured" if "pytorch-image-models" in source else "published"
    )
    made = Entry(identity, book, source=source, kind=kind)
    made.put("title", row["name"])
    made.put("family", row["family"])
    made.put("layers", LAYERS.get(row["klass"], "other"))
    made.put("unit", row["per"])
    made.put("input", row["input"])
    aliases = list(MODEL_ALIASES.get(identity, ()))
    standing = sizes[stem]
    default = next((s for s in DEFAULT_SIZES if s in standing), min(standing))
    if size == default and size:
        aliases.insert(0, stem)
    if aliases:
        made.put("aliases", aliases)
    if row["params_m"]:
        made.number("parameters", float(row["params_m"]) * 1e6)
    if row["fwd_gmacs"]:
        made.number("forward_macs", float(row["fwd_gmacs"]) * 1e9)
    if row["macts_m"]:
        made.number("activations", float(row["macts_m"]) * 1e6)
    length = re.fullmatch(r"seq (\d+)", row["input"])
    if length:
        made.put("tokens", int(length.group(1)))
    if row["notes"]:
        made.put("notes", row["notes"])
    return made


# Which processor a bare operation means: the newest server part that ran nearly all of them.
DEFAULT_PROCESSORS = ("xeon-8581c", "epyc-9b14", "epyc-9b45", "apple-silicon")
PROCESSORS = {
    "AMD-EPYC-9B14": "epyc-9b14",
    "AMD-EPYC-9B45": "epyc-9b45",
    "INTEL(R)-XEON(R)-PLATINUM-8581C-CPU-@-2.30GHz": "xeon-8581c",
    "Neoverse-N1": "neoverse-n1",
    "Neoverse-V2": "neoverse-v2",
    "Apple silicon macOS (see README)": "apple-silicon",
    "AWS c5.large (1 core)": "c5-large",
    "AWS c5.large": "c5-large",
    "CPU (PR author machine)": "unnamed-cpu",
    "A100 host": "a100-host",
    "CI machine": "ci-machine",
}
# Pixels of one input, where the operation's cost follows them. ImageNet's validation images are
# about 500 by 400 (the benchmark's own description).
IMAGENET_PIXELS = 500 * 400
FRAMES = {"320p": 568 * 320, "720p": 1280 * 720, "1080p": 1920 * 1080}
KINDS = {"Normalize": "normalise", "RandomResizedCrop": "resize"}


def op_name(row: Row) -> str | None:
    """The bare name of an operation, or None for a row that is not CPU-seconds of one core."""
    library = (row["implementation"].lower().split() or ["unnamed"])[0]
    if row["stage"] == "decode" and row["unit"] in ("img/s", "ms/img"):
        if "CUDA" in row["implementation"] or row["threads_or_workers"] != "1":
            return None
        size = next((f"-{frame}" for frame in FRAMES if row["input"].startswith(frame)), "")
        size = "-551x676" if "551x676" in row["input"] else size
        return f"decode-jpeg{size}-{library}"
    if row["stage"] == "augment" and row["unit"] == "img/s":
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", row["operation"]).lower()
        return f"{words}-{library}"
    if row["stage"] == "tokenize" and row["threads_or_workers"] == "1":
        return "tokenise-bpe-hf-tokenizers"
    return None


def ops(folder: Path) -> None:
    """ops/*.toml: seconds of one core for one sample."""
    named = [(op_name(row), row) for row in rows("pipeline")]
    found = [(name, PROCESSORS[row["hardware"]], row) for name, row in named if name]
    books: dict[str, tuple[Book, list[Entry]]] = {}
    best: dict[str, str] = {}
    for name, processor, _ in found:
        ranks = [*DEFAULT_PROCESSORS, processor]
        best[name] = min((best.get(name, processor), processor), key=ranks.index)
    for name, processor, row in found:
        book, entries = books.setdefault(row["stage"], (Book(), []))
        entries.append(host_op(f"{name}@{processor}", row, book, bare=best[name] == processor))
    for stage, (book, entries) in books.items():
        write(folder / f"ops/{stage}.toml", book, entries)


def host_op(name: str, row: Row, book: Book, *, bare: bool) -> Entry:
    """One host operation on one processor."""
    made = Entry(name, book, source=row["source"], kind="measured")
    made.put("title", row["operation"])
    kind = {"decode": "decode", "tokenize": "tokenise"}.get(row["stage"], "augment")
    made.put("op", KINDS.get(row["operation"], kind))
    made.put("library", row["implementation"])
    made.put("processor", row["hardware"])
    made.put("input", row["input"])
    if bare:
        made.put("aliases", [name.partition("@")[0]])
    value = float(row["value"])
    if row["unit"] == "MB/s":
        # A token of English text is about 4 bytes (the GPT-2 tokeniser's own average).
        made.put("sample_bytes", 4096.0)
        made.number("core_s", 4096.0 / (value * 1e6))
        made.put("notes", "for a text of 4096 bytes; the cost follows bytes")
        return made
    made.number("core_s", value / 1e3 if row["unit"] == "ms/img" else 1 / value)
    frame = next((px for key, px in FRAMES.items() if row["input"].startswith(key)), None)
    pixels = frame or (551 * 676 if "551x676" in row["input"] else IMAGENET_PIXELS)
    made.put("pixels", float(pixels))
    if row["notes"]:
        made.put("notes", row["notes"])
    return made


def rates(folder: Path) -> None:
    """rates/*.toml: published training rates, for comparison and never for a forecast."""
    zoo = Zoo((folder,))
    write(folder / "rates/training.toml", *_rate_entries(rows("training"), zoo))
    own = [
        {
            "row_id": f"rtx3090-{number}",
            "model_id": f"{row['model']}@{row['img_size']}",
            "accel_id": "RTX3090",
            "stack": f"timm_{row['layout']}",
            "precision": "AMP fp16",
            "batch_per_accel": row["batch"],
            "throughput_per_accel": row["samples_per_s"],
            "unit": "img/s",
            "source": row["source"],
        }
        for number, row in enumerate(rows("training_timm3090_all"))
        if f"{row['model']}@{row['img_size']}" in zoo.models
    ]
    write(folder / "rates/rtx3090.toml", *_rate_entries(own, zoo))


def _rate_entries(table: Iterable[Row], zoo: Zoo) -> tuple[Book, list[Entry]]:
    book, entries = Book(), []
    for row in table:
        if not row["throughput_per_accel"] or row["model_id"] not in zoo.models:
            continue
        accelerator = zoo.accelerator(row["accel_id"])
        made = Entry(f"r{row['row_id']}", book, source=row["source"], kind="measured")
        made.put("model", row["model_id"])
        made.put("accelerator", accelerator.name)
        made.put("stack", infer_stack(row, zoo.model(row["model_id"]).layers).value)
        made.put("precision", infer_precision(row, accelerator).value)
        if row["batch_per_accel"]:
            made.put("batch", round(float(row["batch_per_accel"])))
        made.put("unit", row["unit"])
        made.number("per_accelerator", float(row["throughput_per_accel"]))
        entries.append(made)
    return book, entries


def main(folder: Path = ZOO) -> None:
    """Every generated file."""
    for shelf in (machines, models, hosts, ops, rates):
        shelf(folder)


if __name__ == "__main__":
    main()
