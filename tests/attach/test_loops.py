"""Unmodified scripts: the right loader is measured, and its times are the true ones."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from stoker.probe.attach import Options, Target, examine
from stoker.records.profile import End, LegCode, Profile
from tests.attach.examined import LOAD_S, STEP_S, about, launch, script, seconds, watch

pytestmark = pytest.mark.usefixtures("in_folder")

WITH_WORKERS = [
    pytest.param("2", id="default"),
    pytest.param("2 spawn", id="spawn", marks=pytest.mark.full),
    # every worker of a forkserver imports torch anew: 20 s
    pytest.param("2 forkserver persistent", id="forkserver, persistent", marks=pytest.mark.full),
    pytest.param("2 fork persistent", id="fork, persistent", marks=pytest.mark.full),
    pytest.param("2 spawn persistent", id="spawn, persistent", marks=pytest.mark.full),
    pytest.param("2 forkserver", id="forkserver", marks=pytest.mark.full),
]
RARER_BATCHES = ["tensor", "tuple", "dataclass", "namedtuple", "nested"]


def _is_serial(profile: Profile, *, load_s: float = LOAD_S, step_s: float = STEP_S) -> None:
    """The times of a loop without workers: the step, the loader, and both after one another."""
    step, loader = seconds(profile, LegCode.DEVICE), seconds(profile, LegCode.LOADER)
    assert step == about(step_s)
    assert loader == about(load_s)
    assert seconds(profile, LegCode.REAL) == about(step + loader)


def test_a_plain_loop_takes_the_step_and_the_loader_one_after_the_other() -> None:
    profile = watch("plain_for.py")

    _is_serial(profile)
    assert profile.loader is not None
    assert (profile.loader.workers, profile.loader.batch_size) == (0, 4)
    assert profile.loader.samples == 4000
    assert profile.loader.batches_per_step == 1
    assert profile.loader.dataset == "slow_numbers.SlowNumbers"
    assert profile.exit_code == 0


@pytest.mark.full
def test_a_script_that_holds_pythons_clocks_still_takes_as_long_as_any_other() -> None:
    profile = watch("frozen.py")

    _is_serial(profile)
    assert profile.end in (End.BUDGET, End.CONVERGED)


@pytest.mark.parametrize("arguments", WITH_WORKERS)
def test_two_workers_load_beside_the_step(arguments: str) -> None:
    # Workers that import torch anew take seconds to start, for each leg that starts some.
    is_anew = "spawn" in arguments or "forkserver" in arguments
    profile = watch("plain_for.py", *arguments.split(), budget_s=25 if is_anew else 5)

    assert profile.loader is not None
    assert profile.loader.workers == 2
    assert profile.loader.persistent_workers == ("persistent" in arguments)
    assert profile.loader.start_method == [*arguments.split(), "fork"][1]
    step = seconds(profile, LegCode.DEVICE)
    assert step == about(STEP_S)
    assert seconds(profile, LegCode.LOADER) == about(LOAD_S / 2)
    # Workers that are started at each epoch cost every step its share of that.
    assert profile.epochs is not None
    edge = profile.epochs.edge_s
    share = edge.median / profile.epochs.batches if edge and profile.epochs.batches else 0.0
    assert seconds(profile, LegCode.REAL) == about(step + share)
    assert seconds(profile, LegCode.NULL) < LOAD_S / 2


def test_iter_and_next_begun_again_at_the_end_is_a_loop_too() -> None:
    profile = watch("iter_next.py")

    _is_serial(profile)
    assert profile.epochs is not None
    assert profile.epochs.batches == 30
    assert profile.epochs.boundaries >= 1


@pytest.mark.parametrize("per_step", [pytest.param(1, marks=pytest.mark.full), 3])
def test_a_step_is_as_many_batches_as_the_optimizer_takes(per_step: int) -> None:
    profile = watch("enumerated.py", per_step, budget_s=4)

    assert profile.loader is not None
    assert profile.loader.batches_per_step == per_step
    _is_serial(profile, load_s=per_step * LOAD_S, step_s=per_step * STEP_S)


@pytest.mark.parametrize("gradients", [pytest.param("without", marks=pytest.mark.full), "with"])
def test_validation_is_no_part_of_a_training_step(gradients: str) -> None:
    profile = watch("trainer.py", f"{gradients}-gradients", budget_s=5)

    assert profile.loader is not None
    assert profile.loader.samples == 80, "the validation loader was taken for the training loader"
    _is_serial(profile)
    # Ten batches of 16 samples, and a step of the model for each.
    assert profile.epochs is not None
    assert profile.epochs.boundaries >= 1
    assert profile.epochs.validation_s == about(10 * (16 * 0.002 + STEP_S))
    assert profile.real is not None
    assert profile.real.median == about(STEP_S + LOAD_S)


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.full)])
def test_a_stream_has_no_length_and_is_measured_all_the_same(workers: int) -> None:
    profile = watch("stream.py", workers)

    assert profile.loader is not None
    assert profile.loader.iterable
    assert profile.loader.samples is None
    step, loader = seconds(profile, LegCode.DEVICE), seconds(profile, LegCode.LOADER)
    assert step == about(STEP_S)
    assert loader == about(LOAD_S / max(1, workers))
    assert seconds(profile, LegCode.REAL) == about(step if workers else step + loader)


@pytest.mark.parametrize(
    "kind",
    ["dict", *(pytest.param(kind, marks=pytest.mark.full) for kind in RARER_BATCHES)],
)
def test_batches_that_the_loop_takes_apart_come_whole_every_time(kind: str) -> None:
    profile = watch("spoiler.py", kind)

    _is_serial(profile)
    assert profile.exit_code == 0
    assert profile.loader is not None
    assert profile.loader.batch_objects == (1 if kind == "tensor" else 2)


def test_without_an_optimizer_a_batch_of_the_loop_with_gradients_is_a_step() -> None:
    profile = watch("no_optimizer.py")

    assert profile.loader is not None
    assert profile.loader.samples == 4000, "the counting pass was taken for the training loop"
    _is_serial(profile)


@pytest.mark.full
def test_a_pass_over_the_data_before_training_is_not_the_training() -> None:
    profile = watch("two_stages.py")

    assert profile.loader is not None
    assert profile.loader.samples == 4000, "the counting pass was taken for the training loop"
    _is_serial(profile)


@pytest.mark.parametrize("what", ["loader", pytest.param("data set", marks=pytest.mark.full)])
def test_a_loader_made_anew_for_every_epoch_is_followed(what: str) -> None:
    profile = watch("rebuilt.py", *(["data"] if what == "data set" else []))

    _is_serial(profile)
    assert profile.epochs is not None
    if what == "loader":
        assert profile.epochs.batches == 20
        assert profile.epochs.boundaries >= 1


@pytest.mark.parametrize("variant", ["", pytest.param("no-optimizer", marks=pytest.mark.full)])
def test_a_loader_iterated_in_a_thread_is_measured_and_the_script_stopped(variant: str) -> None:
    profile = watch("background.py", variant)

    assert profile.exit_code == 0
    step, loader = seconds(profile, LegCode.DEVICE), seconds(profile, LegCode.LOADER)
    assert step == about(STEP_S)
    assert loader == about(LOAD_S)
    assert seconds(profile, LegCode.REAL) == about(max(step, loader))


@pytest.mark.full
def test_a_thread_that_nobody_ends_is_not_waited_for() -> None:
    profile = watch("background.py", "stays")

    assert profile.exit_code == 0
    assert not [note for note in profile.environment.notes if "went on" in note]
    assert seconds(profile, LegCode.LOADER) == about(LOAD_S)


def test_two_loaders_side_by_side_are_one() -> None:
    profile = watch("zipped.py", 0)

    assert seconds(profile, LegCode.DEVICE) == about(STEP_S), "a loader was taken for the step"
    _is_serial(profile, load_s=2 * LOAD_S)


@pytest.mark.full
def test_two_optimizers_with_a_loader_each_make_one_step() -> None:
    profile = watch("adversarial.py", budget_s=4)

    assert profile.loader is not None
    assert profile.loader.batches_per_step == 1
    _is_serial(profile, load_s=2 * LOAD_S, step_s=3 * STEP_S)


@pytest.mark.full
def test_a_script_that_asks_for_no_more_batches_comes_to_an_end() -> None:
    profile = watch("cycled.py")

    assert profile.end is End.SCRIPT_ENDED
    assert seconds(profile, LegCode.REAL) == about(STEP_S + LOAD_S)


def test_a_module_is_run_as_python_does(in_folder: Path) -> None:
    package = in_folder / "trainer_package"
    package.mkdir()
    (package / "__init__.py").write_text("print('the package is imported')\n")
    for name in ("slow_numbers.py", "plain_for.py"):
        text = Path(script(name)).read_text()
        (package / name).write_text(text.replace("from slow_", "from .slow_"))

    profile = examine(Target("module", ("trainer_package.plain_for",)), Options(budget_s=3))

    assert profile.script.argv == ("-m", "trainer_package.plain_for")
    _is_serial(profile)


@pytest.mark.full
def test_a_script_behind_a_shell_is_measured() -> None:
    profile = launch("bash", "-c", f"cd /; {sys.executable} {script('plain_for.py')}; exit 0")

    _is_serial(profile)
    assert profile.script.argv[:3] == ("--", "bash", "-c")


@pytest.mark.full
def test_two_ranks_of_torchrun_are_both_measured() -> None:
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone")
    profile = launch(*torchrun, "--nproc_per_node", "2", script("plain_for.py"), budget_s=4)

    assert sorted(rank.rank for rank in profile.ranks) == [0, 1]
    assert profile.exit_code == 0
    _is_serial(profile)


@pytest.mark.parametrize("method", [pytest.param("spawn", marks=pytest.mark.full), "fork"])
def test_training_in_a_process_of_its_own_is_measured(method: str) -> None:
    profile = watch("spawned.py", method)

    _is_serial(profile)
    assert profile.exit_code == 0
