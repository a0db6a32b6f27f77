"""zoo/fit.toml: complete, positive, with provenance, and neutral where nothing was fitted."""

from __future__ import annotations

import math

from stoker.records.zoo import Layers, Work
from stoker.theory.constants import fitted
from stoker.theory.roofline import CONVOLUTIONS, MATRIX

FIT = fitted()


def test_every_kind_of_work_has_its_constants() -> None:
    names = set(FIT.constants)
    for work in Work:
        if work in CONVOLUTIONS:
            wanted = {f"passes.{work}.nhwc", f"passes.{work}.nchw", f"flops.{work}.nhwc"}
        elif work is Work.LAYER_NORM:
            wanted = {f"passes.{work}.half", f"passes.{work}.autocast"}
        else:
            wanted = {f"passes.{work}"} | ({f"flops.{work}"} if work in MATRIX else set())
        assert wanted <= names, work


def test_constants_are_finite_and_positive_and_say_where_they_are_from() -> None:
    for name, value in FIT.constants.items():
        assert math.isfinite(value), name
        assert value > 0 or name.startswith("exponent."), name
    assert "benchmarks" in FIT.source
    assert FIT.kind == "estimate"
    assert len(FIT.checked) == len("2026-11-29")
    assert all(family.source for family in FIT.architectures.values())


def test_effects_of_what_nobody_fitted_are_one() -> None:
    assert list(FIT("effect.accelerator", ["a100-sxm4-80", "unheard of"]))[1] == 1.0
    assert list(FIT("stack.compute", ["amp"])) == [1.0]


def test_effects_are_small_corrections() -> None:
    for name, value in FIT.constants.items():
        if name.startswith(("effect.accelerator", "effect.language-accelerator")):
            assert 0.85 < value < 1.18, name


def test_the_fit_knows_what_it_has_seen() -> None:
    assert FIT.knows_accelerator("a100-sxm4-80")
    assert not FIT.knows_accelerator("rtx4090")
    assert FIT.knows_accelerator("tpuv6e", of_texts=True)
    assert not FIT.knows_accelerator("tpuv6e")
    assert FIT.knows_model("resnet50")


def test_bands_widen_as_less_is_known() -> None:
    for band in (FIT.bands.counted, FIT.bands.uncounted, FIT.bands.language):
        assert 1 < band.seen <= band.new_accelerator
        assert band.seen <= band.new_model
    assert FIT.bands.foreign > FIT.bands.counted.new_accelerator


def test_templates_cover_all_work_of_a_class() -> None:
    for layers in (Layers.CONV, Layers.GROUPED, Layers.DEPTHWISE, Layers.ATTENTION, Layers.OTHER):
        template = FIT.templates[layers]
        assert 0.98 < sum(template.macs.values()) < 1.02
        assert template.calls > 10
