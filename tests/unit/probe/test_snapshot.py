"""Kept batches: pristine whatever the script does to them, in containers of its own."""

from __future__ import annotations

import threading
from collections import OrderedDict, UserDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.utils.rnn import PackedSequence, pack_sequence

from stoker.probe.snapshot import Snapshot, Unkeepable, leaves, rebuild, samples_in, size_of
from tests.unit.own_mapping import Own


@dataclass
class Sample:
    image: torch.Tensor
    tags: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class FrozenSample:
    image: torch.Tensor


@dataclass(slots=True)
class SlottedSample:
    image: torch.Tensor


class Named(NamedTuple):
    image: torch.Tensor
    label: int


Loose = namedtuple("Loose", "image label")


class Plain:
    """A batch class as scripts write them."""

    def __init__(self, image: torch.Tensor) -> None:
        self.image = image
        self.extra = {"mask": torch.zeros(2)}
        self.me = self  # a cycle


class Titled(list[torch.Tensor]):
    """A list that wants a title to be made."""

    def __init__(self, title: str, items: list[torch.Tensor]) -> None:
        super().__init__(items)
        self.title = title


class Graph:
    """As graph libraries have it: copies itself."""

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x

    def clone(self) -> Graph:
        return Graph(self.x.clone())


class Slotted:
    """An object without a dictionary, with a slot of its own and one that is empty."""

    __slots__ = ("__hidden", "empty", "image")

    def __init__(self, image: torch.Tensor) -> None:
        self.image = image
        self.__hidden = [1]

    def hidden(self) -> list[int]:
        return self.__hidden


class Owner:
    """Ends what it holds when it goes."""

    def __init__(self) -> None:
        self.x = _ones()

    def __del__(self) -> None:
        self.x.zero_()


class Output(OrderedDict[str, Any]):
    """Items that are attributes as well, as model outputs have them."""

    def __init__(self, **items: Any) -> None:
        super().__init__()
        for key, value in items.items():
            self[key] = value

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        super().__setattr__(key, value)


def _ones() -> torch.Tensor:
    return torch.ones(3, 2)


CONTAINERS: list[tuple[Callable[[], Any], Callable[[Any], torch.Tensor]]] = [
    (_ones, lambda b: b),
    (lambda: (_ones(), 1), lambda b: b[0]),
    (lambda: [_ones()], lambda b: b[0]),
    (lambda: {"x": _ones()}, lambda b: b["x"]),
    (lambda: OrderedDict(x=_ones()), lambda b: b["x"]),
    (lambda: defaultdict(list, x=_ones()), lambda b: b["x"]),
    (lambda: UserDict(x=_ones()), lambda b: b["x"]),
    (lambda: MappingProxyType({"x": _ones()}), lambda b: b["x"]),
    (lambda: deque([_ones()], maxlen=4), lambda b: b[0]),
    (lambda: Sample(_ones()), lambda b: b.image),
    (lambda: FrozenSample(_ones()), lambda b: b.image),
    (lambda: SlottedSample(_ones()), lambda b: b.image),
    (lambda: Named(_ones(), 1), lambda b: b.image),
    (lambda: Loose(_ones(), 1), lambda b: b.image),
    (lambda: Plain(_ones()), lambda b: b.image),
    (lambda: Titled("t", [_ones()]), lambda b: b[0]),
    (lambda: Graph(_ones()), lambda b: b.x),
    (lambda: Own(x=_ones()), lambda b: b["x"]),
    (lambda: Slotted(_ones()), lambda b: b.image),
    (lambda: Output(x=_ones()), lambda b: b["x"]),
    (lambda: SimpleNamespace(inner=SimpleNamespace(x=_ones())), lambda b: b.inner.x),
    (lambda: pack_sequence([_ones()]), lambda b: b.data),
    (lambda: [{"x": (Sample(_ones()),)}], lambda b: b[0]["x"][0].image),
]


def _name(case: Any) -> str:
    return type(case[0]()).__name__


@pytest.mark.parametrize("case", CONTAINERS, ids=_name)
def test_what_the_script_writes_into_a_batch_is_gone_at_the_next_hand_out(case: Any) -> None:
    make, tensor_of = case
    kept = Snapshot(make())

    for _ in range(3):
        handed = kept.hand_out()
        assert type(handed) is type(make())
        assert torch.equal(tensor_of(handed), _ones())
        tensor_of(handed).mul_(7)


@pytest.mark.parametrize("case", CONTAINERS, ids=_name)
def test_the_batch_of_the_script_shares_no_memory_with_the_kept_one(case: Any) -> None:
    make, tensor_of = case
    batch = make()
    kept = Snapshot(batch)

    tensor_of(batch).zero_()

    assert torch.equal(tensor_of(kept.hand_out()), _ones())


def test_popped_keys_and_added_ones_are_as_before_at_the_next_hand_out() -> None:
    kept = Snapshot({"x": _ones(), "rest": {"y": _ones()}, "tags": ["a"]})

    first = kept.hand_out()
    first.pop("x")
    first["rest"].clear()
    first["tags"].append("b")
    first["new"] = 1

    second = kept.hand_out()
    assert set(second) == {"x", "rest", "tags"}
    assert set(second["rest"]) == {"y"}
    assert second["tags"] == ["a"]


def test_attributes_set_on_a_record_are_gone_at_the_next_hand_out() -> None:
    kept = Snapshot(Plain(_ones()))

    first = kept.hand_out()
    first.image = first.image * 0
    first.extra.pop("mask")

    second = kept.hand_out()
    assert torch.equal(second.image, _ones())
    assert "mask" in second.extra


def test_a_mapping_of_the_scripts_own_is_popped_from_for_one_step_only() -> None:
    batch = Own(x=_ones(), y=1)
    kept = Snapshot(batch)

    assert kept.hand_out().pop("y") == 1
    assert kept.hand_out().pop("y") == 1
    assert batch["y"] == 1


def test_slots_are_as_before_at_the_next_hand_out() -> None:
    kept = Snapshot(Slotted(_ones()))

    first = kept.hand_out()
    first.image = None
    first.empty = 2
    first.hidden().append(2)

    second = kept.hand_out()
    assert torch.equal(second.image, _ones())
    assert not hasattr(second, "empty")
    assert second.hidden() == [1]


def test_objects_in_objects_are_as_before_at_the_next_hand_out() -> None:
    batch = SimpleNamespace(inner=SimpleNamespace(x=_ones(), lengths=[3]), names=["a"])
    kept = Snapshot(batch)

    first = kept.hand_out()
    first.inner.x = first.inner.x.double()
    first.inner.lengths.clear()
    first.names.pop()

    second = kept.hand_out()
    assert second.inner.x.dtype is torch.float32
    assert (second.inner.lengths, second.names) == ([3], ["a"])


def test_an_object_without_tensors_is_as_before_at_the_next_hand_out() -> None:
    kept = Snapshot([SimpleNamespace(scale=2.0)])

    kept.hand_out()[0].scale /= 2
    kept.hand_out()[0].scale /= 2

    assert kept.hand_out()[0].scale == 2.0


def test_what_is_held_twice_is_one_thing_still() -> None:
    handed = Snapshot(Output(x=_ones())).hand_out()

    assert handed.x is handed["x"]


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(lambda: (n for n in range(3)), id="generator"),
        pytest.param(lambda: iter([1, 2]), id="iterator"),
        pytest.param(lambda: Path(__file__).open(), id="file"),  # noqa: SIM115
        pytest.param(threading.Lock, id="lock"),
        pytest.param(threading.Event, id="lock inside"),
        pytest.param(threading.Thread, id="thread"),
        pytest.param(Owner, id="what ends something when it goes"),
    ],
)
def test_what_can_be_used_only_once_is_not_kept(part: Callable[[], Any]) -> None:
    held = part()
    try:
        with pytest.raises(Unkeepable):
            Snapshot({"x": _ones(), "more": [SimpleNamespace(held=held)]})
    finally:
        if hasattr(held, "close"):
            held.close()
    assert size_of([_ones(), held])[0] >= 24


def test_a_list_that_holds_itself_holds_the_new_one() -> None:
    batch: list[Any] = [_ones()]
    batch.append(batch)
    kept = Snapshot(batch)

    first = kept.hand_out()
    assert first[1] is first
    first.clear()

    assert len(kept.hand_out()) == 2


def _nested(levels: int) -> Any:
    batch: Any = [_ones()]
    for _ in range(levels):
        batch = [batch]
    return batch


def _innermost(batch: Any) -> Any:
    while isinstance(batch[0], list):
        batch = batch[0]
    return batch


def test_many_lists_in_each_other_are_new_at_each_hand_out() -> None:
    kept = Snapshot(_nested(40))

    _innermost(kept.hand_out()).clear()

    assert torch.equal(_innermost(kept.hand_out())[0], _ones())


def test_what_is_nested_without_end_is_not_kept() -> None:
    with pytest.raises(Unkeepable, match="100 levels"):
        Snapshot(_nested(5_000))


def test_an_array_that_was_written_to_is_as_before_at_the_next_hand_out() -> None:
    kept = Snapshot((np.ones(3), bytearray(b"abc"), {1, 2}))

    array, raw, chosen = kept.hand_out()
    array[:] = 5
    raw.clear()
    chosen.clear()

    array, raw, chosen = kept.hand_out()
    assert array.tolist() == [1, 1, 1]
    assert raw == b"abc"
    assert chosen == {1, 2}


def test_gradients_wanted_for_a_batch_end_with_the_step() -> None:
    kept = Snapshot(_ones())

    first = kept.hand_out().requires_grad_()
    (first * 2).sum().backward()

    second = kept.hand_out()
    assert not second.requires_grad
    assert second.grad is None
    second.mul_(2)  # would raise for a leaf that wants a gradient


def test_a_tensor_that_nobody_wrote_to_is_not_copied_again() -> None:
    kept = Snapshot([_ones()])

    assert kept.hand_out()[0].data_ptr() == kept.hand_out()[0].data_ptr()


def test_writing_through_a_view_counts_as_writing() -> None:
    kept = Snapshot(_ones())

    kept.hand_out()[0].view(-1)[0] = 9

    assert torch.equal(kept.hand_out(), _ones())


def test_batches_made_in_inference_mode_are_kept_too() -> None:
    with torch.inference_mode():
        kept = Snapshot((_ones(),))
        kept.hand_out()[0].mul_(3)
        assert torch.equal(kept.hand_out()[0], _ones())


def test_place_moves_every_leaf_and_leaves_the_source_alone() -> None:
    first = Snapshot({"x": _ones()})
    placed = Snapshot(first.source, lambda leaf: leaf.double())

    assert placed.hand_out()["x"].dtype is torch.float64
    assert first.hand_out()["x"].dtype is torch.float32


def test_subclasses_keep_what_they_are_besides_their_items() -> None:
    handed = Snapshot(
        [defaultdict(list, x=_ones()), Titled("t", [_ones()]), deque([1], maxlen=3)]
    ).hand_out()

    assert handed[0].default_factory is list
    assert handed[1].title == "t"
    assert handed[2].maxlen == 3


def test_a_packed_sequence_stays_one() -> None:
    handed = Snapshot(pack_sequence([_ones(), torch.zeros(1, 2)])).hand_out()

    assert isinstance(handed, PackedSequence)
    assert handed.batch_sizes.tolist() == [2, 1, 1]


def test_bytes_and_samples_are_those_of_the_tensors_and_arrays() -> None:
    batch = {"id": "ab", "x": torch.zeros(4, 3, dtype=torch.float32), "y": np.zeros(4, np.int64)}

    assert size_of(batch) == (2 + 4 * 3 * 4 + 4 * 8, 3)
    assert samples_in(batch) == 4


def test_a_batch_without_tensors_has_no_count_of_samples() -> None:
    assert samples_in(["a", 1, torch.tensor(5)]) is None


_leaf = st.one_of(
    st.integers(),
    st.text(max_size=3),
    st.none(),
    st.lists(st.integers(-9, 9), max_size=3).map(lambda v: torch.tensor(v, dtype=torch.int64)),
    st.lists(st.integers(-9, 9), max_size=3).map(lambda v: np.asarray(v, dtype=np.int64)),
)


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    few = st.lists(inner, max_size=3)
    return st.one_of(
        few,
        few.map(tuple),
        few.map(deque),
        st.dictionaries(st.text(max_size=2), inner, max_size=3),
        st.dictionaries(st.text(max_size=2), inner, max_size=3).map(UserDict),
        st.tuples(inner, inner).map(lambda pair: Loose(*pair)),
        inner.map(lambda value: Sample(value, ["t"])),
    )


_structures = st.recursive(_leaf, _containers, max_leaves=12)


def _plain(value: Any) -> Any:
    """A structure as nested tuples that compare by content."""
    found = [
        (type(leaf).__name__, leaf.tolist() if hasattr(leaf, "tolist") else leaf)
        for leaf in leaves(value)
    ]
    return repr(rebuild(value, lambda leaf: type(leaf).__name__)), found


def _spoil(value: Any) -> None:
    """Write to all that can be written to."""
    for leaf in leaves(value):
        if hasattr(leaf, "tolist") and len(leaf):
            leaf[:] = -77
    if isinstance(value, (dict, UserDict, list, deque)):
        for part in value.values() if isinstance(value, (dict, UserDict)) else list(value):
            _spoil(part)
        value.clear()
    elif isinstance(value, tuple):
        for part in value:
            _spoil(part)
    elif isinstance(value, Sample):
        _spoil(value.image)
        value.tags.append("spoilt")


@settings(deadline=None)
@given(_structures)
def test_any_structure_survives_any_spoiling(batch: Any) -> None:
    as_made = _plain(batch)
    kept = Snapshot(batch)

    _spoil(batch)
    for _ in range(3):
        handed = kept.hand_out()
        assert _plain(handed) == as_made
        _spoil(handed)
