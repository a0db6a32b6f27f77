"""ATen operators by name: which kind of work each is, and that the tables don't overlap."""

from __future__ import annotations

from itertools import combinations

import pytest

from stoker.records.zoo import Work
from stoker.theory import operators
from stoker.theory.operators import classify


class Shaped:
    """Stands for a tensor: a shape and its elements."""

    def __init__(self, *shape: int) -> None:
        self.shape = shape

    def numel(self) -> int:
        elements = 1
        for size in self.shape:
            elements *= size
        return elements

    def __getitem__(self, place: int) -> Shaped:
        return Shaped(*self.shape[1:])


IMAGE, FLAT = Shaped(2, 4, 10, 10), Shaped(8, 16)


@pytest.mark.parametrize(
    ("name", "args", "out", "work", "macs"),
    [
        ("mm", (FLAT, Shaped(16, 4)), Shaped(8, 4), Work.LINEAR, 8 * 16 * 4),
        ("addmm", (Shaped(4), FLAT, Shaped(16, 4)), Shaped(8, 4), Work.LINEAR, 8 * 16 * 4),
        (
            "bmm",
            (Shaped(3, 8, 16), Shaped(3, 16, 4)),
            Shaped(3, 8, 4),
            Work.MATMUL,
            3 * 8 * 16 * 4,
        ),
        ("native_layer_norm", (FLAT,), (FLAT, Shaped(8), Shaped(8)), Work.LAYER_NORM, 0),
        ("relu_", (FLAT,), FLAT, Work.ACTIVATION, 0),
        ("add_", (FLAT, FLAT), FLAT, Work.ELEMENTWISE, 0),
        ("cat", ([FLAT, FLAT],), Shaped(16, 16), Work.COPY, 0),
        ("max_pool2d_with_indices", (IMAGE,), (IMAGE, IMAGE), Work.POOL, 0),
        ("mean", (IMAGE,), Shaped(2, 4), Work.REDUCE, 0),
        ("fft_r2c", (FLAT,), FLAT, Work.OTHER, 0),
    ],
)
def test_an_operator_is_its_kind_of_work(
    name: str, args: tuple[object, ...], out: object, work: Work, macs: float
) -> None:
    found = classify(name, args, out)
    assert found is not None
    assert (found[0], found[1].macs) == (work, macs)


@pytest.mark.parametrize("name", ["view", "transpose", "empty_like", "detach", "embedding"])
def test_what_only_changes_shape_is_free(name: str) -> None:
    assert classify(name, (FLAT,), FLAT) is None


def test_a_transposed_convolution_meets_each_input_with_the_kernel() -> None:
    weight = Shaped(4, 8, 3, 3)
    args = (IMAGE, weight, None, 1, 1, 1, True, 0, 1)
    found = classify("convolution", args, Shaped(2, 8, 20, 20))
    assert found is not None
    assert found[1].macs == IMAGE.numel() * 8 * 9


def test_no_operator_is_of_two_kinds() -> None:
    tables = {
        name: set(getattr(operators, name))
        for name in ("_ACTIVATIONS", "_ELEMENTWISE", "_SOFTMAX", "_REDUCTIONS", "_COPIES", "_FREE")
    }
    for one, other in combinations(tables, 2):
        assert not tables[one] & tables[other], (one, other)
