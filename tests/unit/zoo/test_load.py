"""The zoo's loader: names however spelled, folders laid over each other, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stoker.errors import InputError
from stoker.records.zoo import Kind, Precision
from stoker.zoo import load
from stoker.zoo.load import PACKAGED, Zoo, key_of, load_zoo

MACHINE = """
[sources]
sheet = "the maker's sheet, page 1"

[toy]
source = "sheet"
kind = "datasheet"
checked = "2026-11-29"
title = "Toy"
vendor = "Toymaker"
architecture = "toy"
aliases = ["toy one"]
peak_flops.fp16 = 1e12
memory_bytes = { value = 8e9, kind = "estimate", source = "a guess" }
memory_bytes_per_s = 1e11
"""


def folder(path: Path, text: str = MACHINE, shelf: str = "machines") -> Path:
    (path / shelf).mkdir(parents=True)
    (path / shelf / "mine.toml").write_text(text)
    return path


@pytest.mark.parametrize(
    "name", ["a100", "A100", "NVIDIA A100", "a100-80", "A100_SXM4_80GB", "a100-sxm4-80"]
)
def test_a_machine_is_found_however_its_name_is_spelled(name: str) -> None:
    assert Zoo((PACKAGED,)).accelerator(name).name == "a100-sxm4-80"


@pytest.mark.parametrize(
    ("alias", "name"),
    [("h100", "h100-sxm5-80"), ("3090", "rtx3090"), ("v100", "v100-sxm2-16"), ("tpu-v4", "tpuv4")],
)
def test_usual_short_names_are_aliases(alias: str, name: str) -> None:
    assert Zoo((PACKAGED,)).accelerator(alias).name == name


def test_a_model_without_a_size_is_the_usual_one() -> None:
    zoo = Zoo((PACKAGED,))
    assert zoo.model("resnet50").name == "resnet50@224"
    assert zoo.model("resnet50@176").name == "resnet50@176"
    assert zoo.model("gpt2").name == "gpt2_124m@1024"


def test_hosts_and_storage_have_the_names_that_people_use() -> None:
    zoo = Zoo((PACKAGED,))
    p4d = zoo.host("p4d")
    assert (p4d.name, p4d.cores_per_accelerator) == ("p4d.24xlarge", 6.0)
    assert zoo.host("dgx-a100").cores_per_accelerator == 16.0
    assert zoo.storage("nvme").name == "nvme-gen4"
    assert zoo.link("gen5").name == "pcie5-x16"


def test_an_unknown_name_offers_the_nearest() -> None:
    with pytest.raises(InputError, match=r"no model 'resnet5O0'.*nearest: .*resnet50") as caught:
        Zoo((PACKAGED,)).model("resnet5O0")
    assert "stoker zoo models" in caught.value.run_next


def test_a_later_folder_replaces_an_entry_and_adds_others(tmp_path: Path) -> None:
    first = folder(tmp_path / "one")
    changed = MACHINE.replace("1e11", "2e11") + MACHINE.partition("[toy]")[2].replace(
        "toy one", "toy two"
    ).join(["[toy2]", ""])
    second = folder(tmp_path / "two", changed)
    zoo = Zoo((first, second))
    assert zoo.accelerator("toy").memory_bytes_per_s.value == 2e11
    assert zoo.accelerator("toy two").name == "toy2"
    assert len(zoo.machines) == 2


def test_own_entries_come_from_the_user_folder_and_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder(tmp_path / "home")
    folder(tmp_path / "work" / "stoker-zoo", MACHINE.replace("[toy]", "[mine]"))
    monkeypatch.setattr(load, "USER_FOLDER", tmp_path / "home")
    monkeypatch.chdir(tmp_path / "work")
    zoo = load_zoo()
    assert {"toy", "mine", "a100-sxm4-80"} <= set(zoo.machines)


class _Forbidden:
    """The home of another user, as `sudo` may leave it in HOME."""

    def expanduser(self) -> _Forbidden:
        return self

    def is_dir(self) -> bool:
        raise PermissionError(13, "Permission denied")


@pytest.mark.parametrize("home", [Path("~no-such-user/zoo"), _Forbidden()])
def test_without_a_home_of_ones_own_the_packaged_entries_are_there(
    home: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "USER_FOLDER", home)
    assert "a100-sxm4-80" in load_zoo().machines


def test_a_file_that_can_not_be_read_is_named(tmp_path: Path) -> None:
    file = folder(tmp_path) / "machines" / "mine.toml"
    file.unlink()
    file.mkdir()
    with pytest.raises(InputError, match=r"mine\.toml can't be read: Is a directory"):
        Zoo((tmp_path,)).accelerator("toy")


def test_a_number_takes_its_entrys_provenance_or_its_own(tmp_path: Path) -> None:
    toy = Zoo((folder(tmp_path),)).accelerator("toy")
    peak = toy.peak_flops[Precision.FP16]
    assert (peak.kind, peak.source) == (Kind.DATASHEET, "the maker's sheet, page 1")
    assert (toy.memory_bytes.kind, toy.memory_bytes.source) == (Kind.ESTIMATE, "a guess")
    assert toy.memory_bytes.checked == "2026-11-29"
    assert toy.peak(Precision.FP8) is None


def test_a_file_that_is_not_toml_is_named(tmp_path: Path) -> None:
    zoo = Zoo((folder(tmp_path, "[toy\n"),))
    with pytest.raises(InputError, match=r"mine\.toml is not TOML"):
        zoo.accelerator("toy")


@pytest.mark.parametrize(
    ("spoiled", "what"),
    [
        (MACHINE.replace("memory_bytes_per_s = 1e11", ""), "memory_bytes_per_s"),
        (MACHINE.replace("1e11", '"fast"'), "float"),
        (MACHINE + "colour = 3\n", "colour"),
        (MACHINE.replace('kind = "datasheet"', 'kind = "hearsay"'), "hearsay"),
    ],
)
def test_an_entry_that_cannot_be_read_names_file_entry_and_key(
    tmp_path: Path, spoiled: str, what: str
) -> None:
    zoo = Zoo((folder(tmp_path, spoiled),))
    with pytest.raises(InputError, match=what) as caught:
        zoo.accelerator("toy")
    assert "mine.toml" in str(caught.value)
    assert "[toy]" in caught.value.looked_at


def test_a_shelf_is_read_only_when_it_is_asked_for(tmp_path: Path) -> None:
    broken = folder(tmp_path, "[broken\n", shelf="hosts")
    assert Zoo((PACKAGED, broken)).accelerator("a100").vendor == "NVIDIA"


def test_spellings_share_a_key_and_different_names_do_not() -> None:
    assert key_of("NVIDIA RTX 3090 24GB".removesuffix(" 24GB")) == key_of("rtx-3090")
    assert key_of("resnet50@176") != key_of("resnet50@224")
    assert key_of("amd") == "amd"
