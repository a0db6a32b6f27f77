"""Layers counted on the meta device: the arithmetic of each kind, names, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from stoker.errors import InputError
from stoker.records.zoo import Layers, Precision, Work
from stoker.theory.layers import build, layers, model_of, on_accelerator, totals
from stoker.theory.step import step_time
from stoker.zoo.load import PACKAGED, Zoo

torch = pytest.importorskip("torch")
ZOO = Zoo((PACKAGED,))


def small() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.Dropout(0.1),
        torch.nn.Conv2d(8, 8, 3, padding=1, groups=8),
        torch.nn.Conv2d(8, 16, 1),
        torch.nn.Flatten(),
        torch.nn.Linear(16 * 10 * 10, 5),
    )


@pytest.fixture(scope="module", autouse=True)
def torch_has_settled() -> None:
    """On its first pass over meta tensors torch names a cache folder in the environment."""
    with torch.device("meta"):
        layers(small(), torch.empty(2, 3, 10, 10))


def counted(module: torch.nn.Module, *shape: int) -> dict[str, dict[Work, object]]:
    with torch.device("meta"):
        found = layers(module.to("meta"), torch.empty(2, *shape))
    return {layer.name: dict(layer.operations) for layer in found}


def test_every_layer_is_counted_for_one_sample_under_its_own_name() -> None:
    found = counted(small(), 3, 10, 10)
    conv = found["0"][Work.CONV]
    assert (conv.macs, conv.read, conv.written) == (3 * 9 * 8 * 100, 300, 800)  # type: ignore[attr-defined]
    assert found["1"][Work.BATCH_NORM].read == 800  # type: ignore[attr-defined]
    assert found["2"][Work.ACTIVATION].written == 800  # type: ignore[attr-defined]
    assert found["4"][Work.DEPTHWISE].macs == 9 * 8 * 100  # type: ignore[attr-defined]
    assert found["5"][Work.POINTWISE].macs == 8 * 16 * 100  # type: ignore[attr-defined]
    assert found["7"][Work.LINEAR].macs == 1600 * 5  # type: ignore[attr-defined]
    assert "6" not in found, "flattening computes nothing"


def test_dropout_is_one_operation_as_on_an_accelerator() -> None:
    found = counted(small(), 3, 10, 10)["3"]
    assert list(found) == [Work.DROPOUT]


def test_attention_that_is_fused_moves_no_scores() -> None:
    class Attention(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.scaled_dot_product_attention(x, x, x)

    with torch.device("meta"):
        works = totals(layers(Attention(), torch.empty(2, 4, 32, 8)))
    assert set(works) == {Work.MATMUL}
    assert works[Work.MATMUL].macs == 2 * 4 * 32 * 32 * 8
    assert works[Work.MATMUL].read == 3 * 4 * 32 * 8


def test_attention_written_out_is_products_and_a_softmax() -> None:
    class Attention(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.softmax(x @ x.transpose(-1, -2), -1) @ x

    with torch.device("meta"):
        works = totals(layers(Attention(), torch.empty(2, 32, 8)))
    assert works[Work.MATMUL].macs == 2 * 32 * 32 * 8
    assert works[Work.SOFTMAX].written == 32 * 32


def test_counting_leaves_no_hooks_behind() -> None:
    module = small()
    with torch.device("meta"):
        layers(module.to("meta"), torch.empty(2, 3, 10, 10))
    assert not any(child._forward_hooks or child._forward_pre_hooks for child in module.modules())


def test_a_module_becomes_a_zoo_entry_that_can_be_forecast() -> None:
    with torch.device("meta"):
        model = model_of("mine", small(), torch.empty(2, 3, 10, 10))
    assert model.input == "3x10x10"
    assert model.parameters is not None
    assert model.parameters.value == sum(p.numel() for p in small().parameters())
    assert step_time(model, ZOO.accelerator("a100"), batch=64).seconds.median > 0
    assert model.layers in tuple(Layers)


def test_each_layer_is_put_on_its_side_of_the_roofline() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(4096, 4096), torch.nn.GELU())
    with torch.device("meta"):
        found = layers(module.to("meta"), torch.empty(2, 4096))
    product, gelu = on_accelerator(found, ZOO.accelerator("a100"), batch=4096)
    assert product.is_compute_bound
    assert not gelu.is_compute_bound
    assert gelu.intensity == 0
    assert product.flops == 2 * 4096**3
    assert product.bytes == 2 * (2 * 4096 * 4096 + 4096 * 4096 + 4096)
    assert product.share + gelu.share == pytest.approx(1)
    narrow = on_accelerator(found, ZOO.accelerator("a100"), batch=1)
    assert not narrow[0].is_compute_bound


def test_a_precision_that_the_device_lacks_is_refused() -> None:
    with torch.device("meta"):
        found = layers(small().to("meta"), torch.empty(2, 3, 10, 10))
    with pytest.raises(InputError, match="v100-sxm2-16 has no bf16 rate"):
        on_accelerator(found, ZOO.accelerator("v100"), batch=1, precision=Precision.BF16)


def test_a_factory_is_imported_from_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_nets.py").write_text(
        "import torch\n"
        "def make():\n    return torch.nn.Linear(6, 2)\n"
        "def words():\n    return torch.nn.Embedding(10, 4)\n"
        "def number():\n    return 3\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    module, given = build("my_nets:make", "6")
    assert given.shape == (2, 6)
    assert next(module.parameters()).device.type == "meta"
    assert build("my_nets:words", "5i")[1].dtype == torch.long
    with pytest.raises(InputError, match="gives a int"):
        build("my_nets:number", "6")
    with pytest.raises(InputError, match="can't be imported"):
        build("my_nets:nothing", "6")
    monkeypatch.delitem(sys.modules, "my_nets")


@pytest.mark.parametrize(("spec", "shape"), [("torch", "3x4"), ("torch:nn", "three")])
def test_what_names_no_model_is_refused(spec: str, shape: str) -> None:
    with pytest.raises(InputError, match="names no model"):
        build(spec, shape)


def test_a_callable_that_needs_arguments_is_refused() -> None:
    with pytest.raises(InputError, match="must take no arguments") as caught:
        build("torch.nn:Linear", "8")
    assert "build_model()" in caught.value.run_next
