"""What the certificate says of batches, and what is seen of a data set that changes."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from stoker.remedy.certificate import Certificate
from stoker.remedy.fingerprint import fingerprint

torch = pytest.importorskip("torch")


def loader(sample: Any) -> Any:
    class Samples:
        def __getitem__(self, index: int) -> Any:
            return sample(index)

    return SimpleNamespace(
        dataset=Samples(),
        _auto_collation=True,
        collate_fn=lambda samples: [torch.stack(part) for part in zip(*samples, strict=True)],
    )


def certified(sample: Any, batch: Any) -> Certificate:
    certificate = Certificate(loader(sample), 1)
    certificate.check([3, 4], batch)
    assert certificate.is_complete
    return certificate


def plain(index: int) -> Any:
    return torch.full((4,), float(index)), torch.tensor(index)


def noisy(index: int) -> Any:
    return torch.randn(500) + 5, torch.tensor(index)


BATCH = [torch.tensor([[3.0] * 4, [4.0] * 4]), torch.tensor([3, 4])]


def test_equal_batches_are_certified_to_the_byte() -> None:
    assert certified(plain, BATCH).sentence.endswith("the same bytes")


def test_other_samples_are_other_data() -> None:
    found = certified(plain, [BATCH[0], torch.tensor([3, 5])])
    assert found.odd == {(1,)}
    assert "OTHER DATA in batch[1]" in found.sentence


def test_another_draw_of_the_same_distribution_is_told_from_other_data() -> None:
    torch.manual_seed(0)
    drawn = [torch.randn(2, 500) + 5, torch.tensor([3, 4])]
    found = certified(noisy, drawn)
    assert found.odd == set()
    assert found.sentence.endswith(
        "the same bytes but for batch[0], drawn at random: same distribution, as far as mean and "
        "spread of another draw of the script's own tell"
    )
    shifted = certified(noisy, [drawn[0] + 1, drawn[1]])
    assert shifted.odd == {(0,)}


def test_two_flips_that_agree_by_chance_do_not_make_a_third_other_data() -> None:
    def flipped(index: int) -> Any:
        picture = torch.arange(4.0) + index
        return (picture.flip(0) if random.random() < 0.5 else picture), torch.tensor(index)

    for seed in range(60):  # a quarter of them agree
        random.seed(seed)
        drawn = [torch.stack([flipped(3)[0], flipped(4)[0]]), torch.tensor([3, 4])]
        assert certified(flipped, drawn).odd == set(), seed


def test_a_missing_part_and_another_type_are_other_data() -> None:
    assert certified(plain, [BATCH[0]]).odd == {(1,)}
    assert certified(plain, [BATCH[0].double(), BATCH[1]]).odd == {(0,)}


def test_the_hashes_of_two_runs_tell_whether_they_had_the_same_data() -> None:
    first, second = certified(plain, BATCH).as_record(), certified(plain, BATCH).as_record()
    assert first == second
    ones = torch.ones(2, 4)
    other = certified(lambda index: (ones[0], torch.tensor(index)), [ones, BATCH[1]])
    assert other.as_record()["data_sha256"] != first["data_sha256"]
    assert other.as_record()["order_sha256"] == first["order_sha256"]


def test_what_is_drawn_anew_is_no_part_of_the_hash_of_the_data() -> None:
    torch.manual_seed(0)
    first, second = (
        certified(noisy, [torch.randn(2, 500) + 5, torch.tensor([3, 4])]).as_record()
        for _ in range(2)
    )
    assert first["data_sha256"] == second["data_sha256"]
    assert first["differing"] == ["batch[0]"]


def test_a_flip_that_agrees_by_chance_at_first_is_no_part_of_the_hash() -> None:
    def flipped(index: int) -> Any:
        picture = torch.arange(4.0) + index
        return (picture.flip(0) if random.random() < 0.5 else picture), torch.tensor(index)

    hashes = set()
    for seed in range(20):
        random.seed(seed)
        certificate = Certificate(loader(flipped), 12)
        for _ in range(12):
            certificate.check([3], [flipped(3)[0][None], torch.tensor([3])])
        hashes.add(certificate.as_record()["data_sha256"])
    assert len(hashes) == 1


def test_drawing_random_numbers_is_seen_where_the_bytes_do_not_show_it() -> None:
    def drawing(index: int) -> Any:
        random.random()
        return plain(index)

    assert certified(drawing, BATCH).draws
    assert "no random numbers drawn" in certified(plain, BATCH).sentence
    assert "no random numbers drawn" not in certified(drawing, BATCH).sentence


def test_the_check_leaves_the_random_stream_where_it_was() -> None:
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    certified(noisy, [torch.randn(2, 500, generator=torch.Generator()), torch.tensor([3, 4])])
    assert torch.equal(torch.rand(3), expected)


class Data:
    def __init__(self) -> None:
        self.level = 1
        self.paths = ["a", "b"]
        self.scale = SimpleNamespace(size=3)
        self.bank = torch.zeros(3)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: setattr(data, "level", 2),
        lambda data: data.paths.append("c"),
        lambda data: data.paths.__setitem__(0, "z"),
        lambda data: setattr(data.scale, "size", 4),
        lambda data: data.bank.add_(1),
        lambda data: setattr(data, "bank", torch.zeros(3)),
    ],
)
def test_a_change_of_the_data_set_is_seen(change: Any) -> None:
    data = Data()
    before = fingerprint(data)
    assert fingerprint(data) == before
    change(data)
    assert fingerprint(data) != before
