"""The change of the code that does the same: it must be what a careful user would write."""

from __future__ import annotations

import importlib
import subprocess
from pathlib import Path
from typing import Any

import pytest

from stoker.remedy import workers
from stoker.remedy.code import change_of
from stoker.remedy.request import parse
from stoker.remedy.snippets import by_hand


def change(tmp_path: Path, source: str, remedies: str) -> str:
    (tmp_path / "train.py").write_text(source)
    return change_of(str(tmp_path / "train.py"), parse(remedies))


def patched(tmp_path: Path, source: str, remedies: str) -> str:
    """The source after the printed diff, applied with patch(1) as a user would."""
    diff = change(tmp_path, source, remedies)
    subprocess.run(["patch", "-s", "-p1"], input=diff, cwd=tmp_path, text=True, check=True)
    return (tmp_path / "train.py").read_text()


def test_a_further_argument_stands_behind_the_others(tmp_path: Path) -> None:
    source = "loader = DataLoader(data, batch_size=8)\n"
    assert patched(tmp_path, source, "overlap=2,persistent-workers") == (
        "loader = DataLoader(data, batch_size=8, num_workers=2, persistent_workers=True)\n"
    )


def test_an_argument_that_is_there_gets_the_new_value(tmp_path: Path) -> None:
    source = "loader = utils.DataLoader(data, num_workers=args.workers, pin_memory=True)  # é\n"
    assert patched(tmp_path, source, "workers=4") == (
        "loader = utils.DataLoader(data, num_workers=4, pin_memory=True)  # é\n"
    )


def test_one_argument_a_line_stays_so(tmp_path: Path) -> None:
    source = "loader = DataLoader(\n    data,\n    batch_size=8,\n)\n"
    assert patched(tmp_path, source, "overlap=2") == (
        "loader = DataLoader(\n    data,\n    batch_size=8,\n    num_workers=2,\n)\n"
    )


def test_no_workers_takes_back_what_only_workers_have(tmp_path: Path) -> None:
    source = "loader = DataLoader(data, num_workers=4, persistent_workers=True)\n"
    assert patched(tmp_path, source, "workers=0") == (
        "loader = DataLoader(data, num_workers=0, persistent_workers=False)\n"
    )


@pytest.mark.parametrize(
    "others",
    [
        "test_loader = DataLoader(test)\ntrain_loader = DataLoader(train)\n",
        "a = DataLoader(test)\nb = DataLoader(train, shuffle=True)\n",
        "def val_dataloader():\n    return DataLoader(test)\n"
        "def train_dataloader():\n    return DataLoader(train)\n",
    ],
)
def test_of_several_loaders_the_one_that_trains_is_changed(tmp_path: Path, others: str) -> None:
    changed = patched(tmp_path, others, "overlap=2").splitlines()
    first, second = (line for line in changed if "DataLoader(" in line)
    assert "num_workers" not in first
    assert "num_workers=2" in second


@pytest.mark.parametrize(
    "source",
    [
        "loader = make_loader(data)\n",
        "a = DataLoader(one)\nb = DataLoader(two)\n",
        "this is not Python\n",
    ],
)
def test_where_the_loader_is_not_found_a_snippet_says_what_to_write(
    tmp_path: Path, source: str
) -> None:
    assert "DataLoader(…, num_workers=2)" in change(tmp_path, source, "overlap=2")


def test_what_is_no_argument_comes_as_a_snippet(tmp_path: Path) -> None:
    text = change(tmp_path, "loader = DataLoader(data)\n", "native-threads=1,allocator")
    assert "torch.set_num_threads(1)" in text
    assert "MALLOC_MMAP_THRESHOLD_" in text
    assert "---" not in text


def test_the_cache_warns_of_random_samples_and_imports_what_it_needs(tmp_path: Path) -> None:
    text = change(tmp_path, "loader = DataLoader(data)\n", "cache-ram=1GB")
    assert "only if nothing in it is random" in text
    assert text.index("import functools\n") < text.index("@functools.lru_cache")


def made_by_hand(fix: str, **known: Any) -> dict[str, Any]:
    """What the code that is printed for a fix defines."""
    names = {
        name: importlib.import_module(name) for name in ("itertools", "numpy", "random", "torch")
    }
    loaders: list[dict[str, Any]] = []
    names |= {"DataLoader": lambda *_, **kwargs: loaders.append(kwargs), "dataset": None}
    exec(by_hand(fix), names | known, made := {})
    return made | {"loaders": loaders}


def test_a_collation_by_hand_gives_the_batch_of_whole_arrays() -> None:
    made = made_by_hand("vectorise-collate")
    numpy = importlib.import_module("numpy")
    values, labels = made["collate"]([(numpy.arange(3.0), 1), (numpy.ones(3), 0)])
    assert values.tolist() == [[0.0, 1.0, 2.0], [1.0, 1.0, 1.0]]
    assert labels.tolist() == [1, 0]
    assert made["loaders"] == [{"collate_fn": made["collate"]}]


def test_groups_by_hand_give_every_sample_once_and_few_groups_at_a_time() -> None:
    groups = [list(range(10 * number, 10 * number + 10)) for number in range(8)]
    order = made_by_hand("access-pattern", groups=groups)["loaders"][0]["sampler"]
    taken = list(order)
    assert sorted(taken) == list(range(80)) and len(order) == 80
    assert taken != sorted(taken)
    assert len({index // 10 for index in taken[:40]}) == 4


def test_one_buffer_by_hand_holds_the_texts() -> None:
    class Texts:
        pass

    texts, self = ["", "über", "x"], Texts()
    made = made_by_hand("flat-storage", texts=texts, self=self)
    assert [made["__getitem__"](self, index) for index in range(3)] == texts


OPTIONS = """parser.add_argument("-j", "--num-jobs", dest="workers", type=int, default=0)
parser.add_argument("--pin-memory", action="store_true")
args = parser.parse_args()
loader = DataLoader(data, num_workers=args.workers, pin_memory=args.pin_memory)
"""


def test_an_option_of_the_script_is_named_behind_a_diff_that_still_applies(tmp_path: Path) -> None:
    text = change(tmp_path, OPTIONS, "workers=4,pinned-async")
    assert "the script has an option for it: --num-jobs 4 (num_workers=args.workers)\n" in text
    assert "the script has an option for it: --pin-memory (pin_memory=args.pin_memory)\n" in text
    assert "num_workers=4, pin_memory=True" in patched(tmp_path, OPTIONS, "workers=4,pinned-async")


def test_no_option_is_named_for_a_value_of_another_origin(tmp_path: Path) -> None:
    source = "loader = DataLoader(data, num_workers=config.workers)\n"
    assert "has an option" not in change(tmp_path, source, "workers=4")


def test_a_library_that_makes_the_loader_itself_gets_the_settings(tmp_path: Path) -> None:
    source = 'settings = TrainingArguments("out", dataloader_num_workers=0)\n'
    assert patched(tmp_path, source, "overlap=2,persistent-workers") == (
        'settings = TrainingArguments("out", dataloader_num_workers=2, '
        "dataloader_persistent_workers=True)\n"
    )
    beside = f"{source}loader = DataLoader(data)\n"
    assert patched(tmp_path, beside, "overlap=2") == (
        f"{source}loader = DataLoader(data, num_workers=2)\n"
    )


@pytest.mark.parametrize(
    ("remedies", "changed"),
    [
        ("workers=4,unordered", 'TrainingArguments("out", dataloader_num_workers=4)\n'),
        ("unordered", 'TrainingArguments("out", dataloader_num_workers=2)\n'),
    ],
)
def test_what_a_librarys_settings_do_not_have_stands_behind_them(
    tmp_path: Path, remedies: str, changed: str
) -> None:
    source = 'TrainingArguments("out", dataloader_num_workers=2)\n'
    text = change(tmp_path, source, remedies)
    assert "dataloader_in_order" not in text
    assert text.endswith("# where the training loader is made:\nDataLoader(…, in_order=False)\n")
    if source != changed:
        assert patched(tmp_path, source, remedies) == changed


def test_no_workers_say_nothing_of_a_default_that_a_library_does_not_have(tmp_path: Path) -> None:
    source = 'TrainingArguments("out", dataloader_num_workers=2)\n'
    assert patched(tmp_path, source, "workers=0") == source.replace("=2", "=0")
    assert "DataLoader(" not in change(tmp_path, source, "workers=0")


@pytest.mark.parametrize("call", ["build(dataloader_cfg=c)", "build(dataloader_workers=2)"])
def test_an_argument_of_some_other_name_is_no_librarys_setting(tmp_path: Path, call: str) -> None:
    told = change(tmp_path, f"{call}\n", "overlap=2")
    assert "---" not in told
    assert "DataLoader(…, num_workers=2)" in told


def test_a_pack_is_not_put_in_the_place_of_a_librarys_first_argument(tmp_path: Path) -> None:
    told = change(tmp_path, 'TrainingArguments("out", bf16=True)\n', "pack=/packed")
    assert "DataLoader(stoker.pack.in_place_of(dataset, '/packed'), …)" in told


def test_workers_without_a_number_are_one_for_each_core_as_in_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "host_facts", lambda: {"cores_owned": 6.0})
    source = "loader = DataLoader(data)\n"
    assert "num_workers=6" in change(tmp_path, source, "overlap")
