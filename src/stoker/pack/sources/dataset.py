"""A map-style Dataset out of the user's own code, named as `module:object` or `file.py:object`.

The user's code runs, as it does in training; nothing that a pack or an archive holds is executed.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from stoker import split
from stoker.containers import Place, parts
from stoker.errors import InputError, place_of
from stoker.pack.sources.kinds import columns_of, is_picture, remarks_on
from stoker.pack.sources.listing import Listing

# Samples that are looked at before packing: enough to see sizes differ, too few to wait for.
_LOOKED_AT = 8
# What a Dataset of the user's may raise for a broken sample: anything, as the errors of libraries
# (cv2.error, struct.error) have nothing else in common.
SAMPLE_ERRORS = (Exception,)

# Data sets that this process made otherwise, by the name that they go by here.
_IN_HAND: dict[str, Any] = {}


def take_in_hand(spec: str, dataset: Any) -> None:
    """Let `spec` name this Dataset, in this process and in those that it forks from now on."""
    _IN_HAND[spec] = dataset


def is_in_hand(spec: str) -> bool:
    """True for a Dataset that was made otherwise than by importing it."""
    return spec.partition("#")[0] in _IN_HAND


def load_object(spec: str) -> Any:
    """The object that `module:object` names; a class or function without `__getitem__` is called.

    `module:object#N` is that Dataset with the first N of its transforms only. Raises InputError
    when there is no such module or object, when it is no Dataset, or when importing the module
    runs a script that ends the program.
    """
    named, _, kept = spec.partition("#")
    found = _IN_HAND[named] if named in _IN_HAND else _imported(named)
    cut = split.cut_at(found, int(kept)) if kept else None
    return found if cut is None else cut.kept(found)


def expression_of(spec: str) -> tuple[str, str]:
    """The import line and the expression by which a script has what `load_object` gives."""
    module, _, path = spec.partition("#")[0].rpartition(":")
    found = _found(module, path)
    name = path.partition(".")[0]
    line = f"from {Path(module).stem if module.endswith('.py') else module} import {name}"
    return line, f"{path}()" if _is_called(found) else path


def _imported(spec: str) -> Any:
    module, _, path = spec.rpartition(":")
    found = _found(module, path)
    if _is_called(found):
        _require_callable(found, spec)
        with _as_if_run(module, f"{spec}()"):
            found = found()
    if not (hasattr(found, "__getitem__") and hasattr(found, "__len__")):
        raise InputError(
            f"{spec} is {type(found).__name__}, which has no length or no items",
            looked_at="__len__ and __getitem__",
            run_next="give a map-style Dataset, or a function that returns one",
        )
    return found


def _found(module: str, path: str) -> Any:
    """What the module holds under that name. Raises InputError."""
    with _as_if_run(module, f"{module}:{path}"):
        found: Any = _module(module)
        for part in path.split("."):
            found = getattr(found, part)
    return found


def _is_called(found: Any) -> bool:
    """True for a class, and for a function that returns the Dataset."""
    return isinstance(found, type) or not hasattr(found, "__getitem__")


def _require_callable(found: Any, spec: str) -> None:
    """Raise InputError for a class or function that is not to be called without arguments."""
    try:
        signature = inspect.signature(found)
    except (TypeError, ValueError):  # no function at all, or one of C that doesn't tell
        return
    try:
        signature.bind()
    except TypeError as error:
        name = spec.rpartition(":")[2]
        file = spec.rpartition(":")[0]
        kind = "class" if isinstance(found, type) else "function"
        raise InputError(
            f"{spec} is a {kind} and can't be called without arguments ({error}): "
            "an instance of a Dataset is needed",
            looked_at=f"{name}{signature}",
            run_next=f"write `photos = {name}(…)` into the file and give {file}:photos, or give a "
            "function without arguments that returns one",
        ) from error


@contextlib.contextmanager
def _as_if_run(name: str, spec: str) -> Iterator[None]:
    """The command line of `python name`: the one of this process isn't the user's script's.

    Raises InputError for whatever the user's code raises while `spec` is made.
    """
    before = sys.argv
    sys.argv = [name]
    try:
        yield
    except SystemExit as error:
        raise InputError(
            f"importing {name} runs it, and it ended the program with {error.code or 0!r}",
            looked_at=f"{name}, imported without arguments",
            run_next='put the training under `if __name__ == "__main__":`, or the Dataset in a '
            "module of its own",
        ) from error
    except (ImportError, AttributeError, OSError) as error:
        raise InputError(
            f"{spec} cannot be loaded: {error}",
            looked_at=f"the module {name!r}, imported from {Path.cwd()}",
            run_next="give module:object or file.py:object, from the folder of your script",
        ) from error
    except Exception as error:
        raise InputError(
            f"{spec} cannot be loaded: {type(error).__name__}: {error}",
            looked_at=place_of(error),
            run_next="mend what its message says",
        ) from error
    finally:
        sys.argv = before


def _import_from(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _module(name: str) -> Any:
    if not name.endswith(".py"):
        # As `python script.py` has it, and with the folder of the command in front.
        _import_from(Path.cwd())
        return importlib.import_module(name)
    path = Path(name).absolute()
    # Modules beside the file, as `python file.py` finds them; it stays, as some are imported only
    # when samples are made.
    _import_from(path.resolve().parent)
    if path.stem in sys.modules and getattr(sys.modules[path.stem], "__file__", "") == str(path):
        return sys.modules[path.stem]
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{name} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[path.stem]  # half a module must not be found the next time
        raise
    return module


def list_dataset(spec: str) -> Listing:
    """The samples of the Dataset; their columns follow from the first few.

    When its transforms are a Compose, those that are random or make floats are cut off, and the
    remarks say which. Raises InputError when it gives other values when it is asked again all the
    same: what is random has to stay behind the pack, or every epoch would see the same.
    """
    dataset = load_object(spec)
    if "#" not in spec and len(dataset):
        cut = split.find_cut(dataset)
        if cut is not None and cut.rest:
            try:
                kept = list_dataset(f"{spec}#{cut.once}")
            except InputError:  # it can't do without them; the whole may be the same every time
                with contextlib.suppress(InputError):
                    return _listed(spec, dataset)
                raise
            return msgspec.structs.replace(kept, remarks=(str(cut), *kept.remarks))
    return _listed(spec, dataset)


def _listed(spec: str, dataset: Any) -> Listing:
    """All of what the Dataset gives. Raises InputError where that differs from time to time."""
    count = len(dataset)
    if count == 0:
        raise InputError(
            f"{spec} has no sample",
            looked_at="its length",
            run_next="give a Dataset with samples",
        )
    looked_at, first = _first_samples(dataset, spec)
    again = [_at(dataset, position, seed=2) for position in looked_at]
    for position, a, b in zip(looked_at, first, again, strict=True):
        if a.keys() != first[0].keys():
            raise _other_parts(spec, position, first[0], a)
        for name in a:
            if not split.is_equal(a[name], b.get(name)):
                raise _random(spec, position, name)
    columns = columns_of(first)
    return Listing(
        kind="dataset",
        location=spec,
        columns=columns,
        names=_Names(spec, count),
        sizes=np.zeros(count, dtype=np.int64),
        mtimes_ns=np.zeros(count, dtype=np.int64),
        classes=tuple(map(str, getattr(dataset, "classes", ()))),
        remarks=tuple(remarks_on(columns)),
    )


def _first_samples(dataset: Any, spec: str) -> tuple[list[int], list[dict[str, Any]]]:
    """The first samples that can be made, and their positions. Raises InputError if none can."""
    found: dict[int, dict[str, Any]] = {}
    problem = ""
    for position in range(min(len(dataset), _LOOKED_AT)):
        try:
            found[position] = _at(dataset, position, seed=1)
        except SAMPLE_ERRORS as error:  # will be quarantined
            problem = problem or f"{type(error).__name__}: {error}"
    if not found:
        cut = "; its transforms are left out from the first random one on" if "#" in spec else ""
        raise InputError(
            f"{spec} gives none of its first samples: {problem}",
            looked_at=f"the first {min(len(dataset), _LOOKED_AT)} samples{cut}",
            run_next="have a transform do what the Dataset does with the result of its transforms"
            if cut
            else "mend what its message says",
        )
    return list(found), list(found.values())


class _Names:
    """The names of a Dataset's samples, made when asked for."""

    def __init__(self, spec: str, count: int) -> None:
        self._spec, self._count = spec, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, position: int) -> str:
        return f"{self._spec}[{position}]"


def named_values(sample: Any) -> dict[str, Any]:
    """The parts of a sample by name: a dict's keys, else image, label, part2, …

    Parts of parts have both names with a dot between, "target.boxes".
    """
    places = named_places(sample)
    return {places[place]: _plain(part) for place, part in parts(sample)}


def named_places(sample: Any) -> dict[Place, str]:
    """The same names by where the parts lie in the sample."""
    found = list(parts(sample))
    names = _top_names(sample, found)
    return {place: ".".join((names[place[:1]], *map(str, place[1:]))) for place, _ in found}


def _top_names(sample: Any, found: list[tuple[Place, Any]]) -> dict[Place, str]:
    """The names of the parts at the top: a tuple's by their places."""
    if isinstance(sample, Mapping):
        return {(key,): str(key) for key in sample}
    starts = bool(found) and is_picture(_plain(found[0][1]))
    first = "image" if starts else "data"
    usual = {(): first, (0,): first, (1,): "label"}
    tops = {place[:1] for place, _ in found}
    return {top: usual.get(top) or f"part{top[0]}" for top in tops}


def _at(dataset: Any, position: int, *, seed: int) -> dict[str, Any]:
    split.seed_all(seed)
    return named_values(dataset[position])


def _plain(value: Any) -> Any:
    """Tensors as arrays, numpy's single numbers as Python's."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray | np.generic) and value.ndim == 0:
        return value.item()
    return value


def _other_parts(
    spec: str, position: int, first: dict[str, Any], other: dict[str, Any]
) -> InputError:
    return InputError(
        f"{spec}: sample {position} has other parts than sample 0",
        looked_at=f"{', '.join(first)} in sample 0; {', '.join(other)} in sample {position}",
        run_next="give every sample the same parts; lists whose length differs as one array",
    )


def _random(spec: str, position: int, name: str) -> InputError:
    return InputError(
        f"{spec}: part {name!r} of sample {position} differs when it is asked for again",
        looked_at=f"the first {_LOOKED_AT} samples, twice, with other seeds, and a row of "
        "transforms to cut (a Compose, or a list in an attribute of the Dataset)",
        run_next="have the Dataset do what is random in a row of transforms, as Compose has it; "
        "or leave it out of the Dataset that you pack, and apply it to what the pack gives",
    )
