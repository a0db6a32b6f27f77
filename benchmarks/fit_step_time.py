"""Fits the constants of the step-time equations to published rates: src/stoker/zoo/fit.toml.

Run it after a table, an equation or a prior has changed; benchmarks/accuracy.py then tells what it
is worth on rows that were held out. The least-squares problem is in step_problem.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from benchmarks.step_priors import ARCHITECTURES
from benchmarks.step_problem import (
    Problem,
    by_accelerator,
    by_fold,
    by_model,
    place,
    twin,
)
from benchmarks.step_rows import CHECKED, Observed, big_table, published, submissions
from stoker.records.zoo import Layers, Model, Work
from stoker.theory.cases import stem_of
from stoker.theory.constants import Architecture, Band, Bands, Fit, Template, fitted
from stoker.theory.roofline import MATRIX
from stoker.zoo.load import PACKAGED, Zoo

SOURCE = "fitted by benchmarks/fit_step_time.py to the published rates in benchmarks/data"
# A quantile a little above three quarters, so that three quarters of rows not yet seen lie within.
BAND_QUANTILE = 0.78


def templates(zoo: Zoo) -> dict[Layers, Template]:
    """The mean composition of each class over the zoo's counted networks."""
    made = {}
    batches = {Layers.CONV: 256, Layers.GROUPED: 128, Layers.DEPTHWISE: 128, Layers.ATTENTION: 32}
    everything = [model for model in zoo.models.values() if model.operations]
    for layers in (*batches, Layers.OTHER):
        group = [m for m in everything if layers in (m.layers, Layers.OTHER)]
        macs: dict[Work, list[float]] = {work: [] for work in Work}
        moved: dict[Work, list[float]] = {work: [] for work in Work}
        for model in group:
            all_macs = sum(one.macs for one in model.operations.values())
            elements = sum(o.written for work, o in model.operations.items() if work in MATRIX)
            for work in Work:
                one = model.operations.get(work)
                macs[work].append(one.macs / all_macs if one else 0.0)
                moved[work].append((one.read + one.written) / elements if one else 0.0)
        calls = [sum(one.calls for one in model.operations.values()) for model in group]
        made[layers] = Template(
            macs={work: round(float(np.mean(v)), 5) for work, v in macs.items() if np.mean(v) > 0},
            moved={w: round(float(np.mean(v)), 4) for w, v in moved.items() if np.mean(v) > 1e-3},
            activations_per_mac=_median_density(group),
            calls=round(float(np.median(calls))),
            batch=batches.get(layers, 32),
        )
    return made


def _median_density(group: Sequence[Model]) -> float:
    pairs = [(m.activations, m.forward_macs) for m in group]
    shares = [a.value / macs.value for a, macs in pairs if a is not None and macs is not None]
    return float(f"{np.median(shares):.4g}")


_NO_BAND = Band(seen=1.0, new_accelerator=1.0, new_model=1.0)


def starting_fit(zoo: Zoo) -> Fit:
    """Facts and templates, with no constants yet."""
    return Fit(
        source=SOURCE,
        kind="estimate",
        checked=CHECKED,
        constants={},
        bands=Bands(counted=_NO_BAND, uncounted=_NO_BAND, language=_NO_BAND, foreign=1.0),
        architectures={
            name: Architecture(lanes=lanes, full_rate=ratio, flops_per_joule=work, source=source)
            for name, (lanes, ratio, work, source) in ARCHITECTURES.items()
        },
        templates=templates(zoo),
    )


class Fitted(NamedTuple):
    """A fit with the residuals that its bands were taken from."""

    fit: Fit
    networks: Problem
    texts: Problem


def run(zoo: Zoo) -> Fitted:
    """Fits both kinds of model, and the bands from held-out rows."""
    fit = starting_fit(zoo)
    rows = [*published(zoo), *submissions(zoo)]
    layered = Problem([*(row for row in rows if not row.is_text), *big_table(zoo)], fit)
    layered.solve(layered.weights)
    language = Problem([row for row in rows if row.is_text], fit, layered.theta)
    language.solve(language.weights)
    constants = layered.theta.values() | language.theta.values()
    stems = {f"effect.model.{stem_of(name)}" for name in zoo.models}
    kept = {
        name: float(f"{value:.5g}")
        for name, value in sorted(constants.items())
        # Effects of models that the zoo doesn't hold are of no use outside the fit.
        if name in stems or not _is_only_in_table(name, layered.rows)
    }
    return Fitted(msgspec.structs.replace(fit, constants=kept), layered, language)


def _is_only_in_table(name: str, rows: Sequence[Observed]) -> bool:
    """An effect of a model that has no rate outside the big tables."""
    stem = name.removeprefix("effect.model.")
    mine = [row for row in rows if stem_of(row.case.model.name) == stem]
    return stem != name and bool(mine) and all(row.is_table for row in mine)


def quantile(values: Iterable[float]) -> float:
    """The band's factor for these residuals."""
    return round(math.exp(float(np.quantile(np.abs(list(values)), BAND_QUANTILE))), 3)


def without_layers(rows: Sequence[Observed]) -> list[Observed]:
    """Copies of rows whose models are told by their totals alone; they weigh nothing in a fit."""
    return [
        row._replace(
            row_id=f"{row.row_id} by totals",
            case=msgspec.structs.replace(
                row.case, model=msgspec.structs.replace(row.case.model, operations={})
            ),
            weight=0.0,
        )
        for row in rows
        if row.case.model.operations and not row.is_table
    ]


def bands(found: Fitted) -> Bands:
    """75 % bands from rows held out by device, by model and at random."""
    layers, language = found.networks, found.texts
    free = {row.row_id for row in layers.rows if row.is_free}
    # A model whose rates are all from one device says nothing of another one.
    places: dict[str, set[str]] = {}
    for row in layers.rows:
        if row.is_free:
            places.setdefault(by_model(row), set()).add(by_accelerator(row))
    lonely = {row.row_id for row in layers.rows if len(places.get(by_model(row), "ab")) < 2}

    def split(off: Mapping[str, float]) -> tuple[float, float]:
        counted = [value for name, value in off.items() if name not in free]
        other = [value for name, value in off.items() if name in free - lonely]
        return quantile(counted), quantile(other)

    seen, seen_free = split(layers.held_out(by_fold, place))
    off_device = layers.held_out(by_accelerator)
    new_device, new_device_free = split(off_device)
    foreign = {
        row.row_id
        for row in layers.rows
        if row.case.accelerator.architecture not in found.fit.architectures and not row.is_free
    }
    new_model, _ = split(layers.held_out(by_model, twin))
    bare = Problem([*layers.rows, *without_layers(layers.rows)], found.fit)
    by_totals = bare.held_out(by_model, twin)
    new_model_bare = quantile(v for name, v in by_totals.items() if name.endswith("by totals"))
    return Bands(
        counted=Band(seen=seen, new_accelerator=new_device, new_model=new_model),
        uncounted=Band(seen=seen_free, new_accelerator=new_device_free, new_model=new_model_bare),
        foreign=quantile(off for name, off in off_device.items() if name in foreign),
        language=Band(
            seen=quantile(language.held_out(by_fold, place).values()),
            new_accelerator=quantile(language.held_out(by_accelerator).values()),
            new_model=quantile(language.held_out(by_model).values()),
        ),
    )


def write(fit: Fit) -> None:
    """zoo/fit.toml, in the order of the record."""
    lines = [
        "# Written by benchmarks/fit_step_time.py: constants of theory/roofline.py.",
        "",
        f'source = "{fit.source}"',
        f'kind = "{fit.kind}"',
        f'checked = "{fit.checked}"',
        "",
    ]
    for known, band in msgspec.to_builtins(fit.bands).items():
        if isinstance(band, dict):
            lines += [f"[bands.{known}]", *(f"{key} = {value}" for key, value in band.items()), ""]
        else:
            lines += ["[bands]", f"{known} = {band}", ""]
    for name, architecture in fit.architectures.items():
        facts = msgspec.to_builtins(architecture)
        lines.append(f"[architectures.{name}]")
        lines += [f"{k} = {v if not isinstance(v, str) else repr_of(v)}" for k, v in facts.items()]
        lines.append("")
    for layers, template in fit.templates.items():
        lines.append(f"[templates.{layers}]")
        lines += [
            f"activations_per_mac = {template.activations_per_mac}",
            f"calls = {template.calls}",
            f"batch = {template.batch}",
            *(f"macs.{work} = {value}" for work, value in template.macs.items()),
            *(f"moved.{work} = {value}" for work, value in template.moved.items()),
            "",
        ]
    lines.append("[constants]")
    lines += [f'"{name}" = {value}' for name, value in fit.constants.items()]
    (PACKAGED / "fit.toml").write_text("\n".join(lines) + "\n", "utf-8")
    fitted.cache_clear()


def repr_of(text: str) -> str:
    """A TOML basic string."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def main() -> None:
    """Fits, takes the bands, writes."""
    zoo = Zoo((PACKAGED,))
    found = run(zoo)
    fit = msgspec.structs.replace(found.fit, bands=bands(found))
    write(fit)
    print(
        f"{len(found.networks.rows)} + {len(found.texts.rows)} rows, {len(fit.constants)} numbers"
    )
    print(*msgspec.to_builtins(fit.bands).items(), sep="\n")


if __name__ == "__main__":
    main()
