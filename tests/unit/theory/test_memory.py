"""Device memory of a step, by what the backward pass keeps."""

from __future__ import annotations

import msgspec
import pytest

from stoker.records.zoo import Layers, Operations, Precision, Work
from stoker.theory.memory import kept_elements, memory_bytes
from stoker.zoo.load import PACKAGED, Zoo

ZOO = Zoo((PACKAGED,))


def need(model: str = "resnet50", batch: float = 256, **how: object) -> float:
    plain: dict[str, object] = {"precision": Precision.BF16, "training": True}
    return memory_bytes(ZOO.model(model), batch=batch, **(plain | how))  # type: ignore[arg-type]


def test_convolutions_and_normalisation_keep_their_inputs_and_relu_nothing() -> None:
    works = {
        Work.CONV: Operations(9.0, 10.0, 20.0, 1),
        Work.BATCH_NORM: Operations(0.0, 20.0, 20.0, 1),
        Work.ACTIVATION: Operations(0.0, 20.0, 20.0, 1),
    }
    assert kept_elements(works, Layers.CONV) == 30
    assert kept_elements(works, Layers.DEPTHWISE) == 50


def test_softmax_keeps_its_result_and_layer_norm_32_bits() -> None:
    works = {
        Work.SOFTMAX: Operations(0.0, 10.0, 10.0, 1),
        Work.LAYER_NORM: Operations(0.0, 4.0, 4.0, 1),
    }
    assert kept_elements(works, Layers.ATTENTION) == 10 + 2 * 4


def test_memory_grows_with_the_batch_and_the_width() -> None:
    per_image = (need(batch=512) - need(batch=256)) / 256
    assert 35e6 < per_image < 62e6  # what batches of 448 on 24 GB and 1,280 on 80 GB leave
    assert need(precision=Precision.TF32) > 1.7 * need()


def test_inference_keeps_neither_activations_nor_state() -> None:
    assert need(training=False) < 0.25 * need()


def test_published_batches_fit_the_devices_that_ran_them() -> None:
    # Sheets say GB where devices have GiB: the zoo's number is the smaller, cautious one.
    binary = 2**30 / 1e9
    for device, batch in (("v100", 256), ("rtx3090", 448), ("rtx8000", 928), ("b200", 3328)):
        assert need(batch=batch) <= binary * ZOO.accelerator(device).memory_bytes.value, device


def test_a_models_state_is_16_bytes_a_parameter_shared_by_its_devices() -> None:
    one, eight = (need("llama2_7b", 1, accelerators=count) for count in (1, 8))
    assert one - eight == pytest.approx(16 * 6.738e9 * 7 / 8, rel=0.01)


def test_recomputed_activations_need_little() -> None:
    full = need("llama2_7b", 8192, accelerators=64)
    again = need("llama2_7b", 8192, accelerators=64, is_recomputed=True)
    assert again < 0.35 * full


def test_a_model_whose_layers_nobody_counted_is_estimated() -> None:
    bare = msgspec.structs.replace(ZOO.model("resnet50"), operations={})
    found = memory_bytes(bare, batch=256, precision=Precision.BF16, training=True)
    assert found == pytest.approx(need(), rel=0.4)
