"""Counts what published networks do, from their layer shapes: benchmarks/data/operations.csv.

Needs timm (any 1.x) beside torch; run only to add networks. Attention is counted unfused, because
the published rates that the counts explain were measured before it was fused.
"""

from __future__ import annotations

import csv
import math
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from stoker.records.zoo import Operations, Work
from stoker.theory.layers import layers, totals

DATA = Path(__file__).parent / "data"
# Vocabulary and positions of BERT (Devlin et al. 2019).
VOCABULARY, POSITIONS = 30522, 512
ENCODERS = {"bert_base": (12, 768, 12), "bert_large": (24, 1024, 16)}
# Old names of networks that today's library calls differently.
PREFIXES = ("gluon_", "tv_", "ssl_", "swsl_", "ig_")
SUFFIXES = ("_in21ft1k", "_in22ft1k", "_22kft1k", "_dist")
RENAMED = {
    "adv_inception_v3": "inception_v3",
    "gluon_resnet34_v1b": "resnet34",
    "gluon_resnet50_v1c": "resnet50c",
    "gluon_resnet50_v1d": "resnet50d",
    "gluon_resnet101_v1c": "resnet101c",
    "gluon_resnet101_v1s": "resnet101s",
    "gluon_resnet152_v1b": "resnet152",
    "gluon_resnet152_v1c": "resnet152c",
    "gluon_resnet152_v1d": "resnet152d",
    "gluon_resnet152_v1s": "resnet152s",
    "gluon_senet154": "legacy_senet154",
}


class EncoderLayer(nn.Module):
    """A layer of BERT with attention written out, as its published code has it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        """Shape (batch, tokens, width) in and out."""
        batch, tokens, width = x.shape
        size = width // self.heads

        def heads(y: Tensor) -> Tensor:
            return y.view(batch, tokens, self.heads, size).transpose(1, 2)

        query, key, value = heads(self.query(x)), heads(self.key(x)), heads(self.value(x))
        scores = query @ key.transpose(-1, -2) / math.sqrt(size)
        scores = scores + torch.zeros(batch, 1, 1, tokens, device=x.device)  # the padding mask
        weights = self.drop(torch.softmax(scores, -1))
        context = (weights @ value).transpose(1, 2).reshape(batch, tokens, width)
        x = self.norms[0](self.drop(self.out(context)) + x)
        return self.norms[1](self.drop(self.narrow(nn.functional.gelu(self.widen(x)))) + x)


class Encoder(nn.Module):
    """BERT with the two outputs of a question-answering head."""

    def __init__(self, depth: int, width: int, heads: int) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Embedding(POSITIONS, width)
        self.norm, self.drop = nn.LayerNorm(width), nn.Dropout(0.1)
        self.body = nn.Sequential(*(EncoderLayer(width, heads) for _ in range(depth)))
        self.head = nn.Linear(width, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        """Token numbers (batch, tokens) to (batch, tokens, 2)."""
        places = self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        return self.head(self.body(self.drop(self.norm(self.words(tokens) + places))))


def table(name: str) -> list[dict[str, str]]:
    """All rows of a published table."""
    with (DATA / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def wanted() -> list[tuple[str, int]]:
    """Name and input size of every image network that a rate is known for."""
    names = {(row["model"], int(row["img_size"])) for row in table("training_timm3090_all")}
    for row in table("models"):
        if "pytorch-image-models" in row["source"]:
            name, _, size = row["model_id"].partition("@")
            names.add((name, int(size)))
    return sorted(names)


def todays_name(name: str, known: frozenset[str]) -> str | None:
    """What the library calls a network now, or None where it has gone."""
    for candidate in (
        name,
        RENAMED.get(name, ""),
        *(name.removeprefix(prefix) for prefix in PREFIXES),
        *(name.removesuffix(suffix) for suffix in SUFFIXES),
    ):
        if candidate in known:
            return candidate
    return None


def encoders() -> Iterator[tuple[str, float, Mapping[Work, Operations]]]:
    """BERT at the lengths that rates are known for."""
    for name, shape in ENCODERS.items():
        for tokens in (128, 256, 384, 512):
            with torch.device("meta"):
                module = Encoder(*shape)
                counted = layers(module, torch.zeros(2, tokens, dtype=torch.long))
            parameters = float(sum(p.numel() for p in module.parameters()))
            yield f"{name}@{tokens}", parameters, totals(counted)


def images() -> Iterator[tuple[str, float, Mapping[Work, Operations]]]:
    """The networks of timm."""
    import timm

    timm.layers.set_fused_attn(enable=False)
    known = frozenset(timm.list_models())
    for name, size in wanted():
        today = todays_name(name, known)
        if today is None:
            continue
        with torch.device("meta"):
            try:
                module = timm.create_model(today, img_size=size)
            except TypeError:  # convolutional networks take any size
                module = timm.create_model(today)
            try:
                counted = layers(module, torch.empty(2, 3, size, size))
            except (NotImplementedError, AssertionError, RuntimeError) as error:
                print(f"skipped {name}@{size}: {error}")
                continue
        parameters = float(sum(p.numel() for p in module.parameters()))
        yield f"{name}@{size}", parameters, totals(counted)


def main() -> None:
    """Writes the table."""
    warnings.simplefilter("ignore")
    with (DATA / "operations.csv").open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["model_id", "parameters", "work", "macs", "read", "written", "calls"])
        for source in (encoders(), images()):
            for name, parameters, works in source:
                for work, one in sorted(works.items()):
                    numbers = (one.macs, one.read, one.written, one.calls)
                    out.writerow([name, f"{parameters:.0f}", work, *(f"{n:.0f}" for n in numbers)])


if __name__ == "__main__":
    main()
