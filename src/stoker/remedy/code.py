"""Remedies, and fixes that no remedy makes, as a change of the user's code: a diff, or a snippet.

Reads the source with `ast`, so that nothing of it is run; writes nothing.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Sequence
from pathlib import Path

from stoker.remedy.edits import Edit, Offset, edits_for_pack, offsets, wrapped_call
from stoker.remedy.request import Request
from stoker.remedy.workers import one_a_core


def keywords_of(requests: Sequence[Request]) -> dict[str, str]:
    """DataLoader's arguments that do the same, as source text."""
    found: dict[str, str] = {}
    for request in requests:
        match request.name:
            case "overlap" | "workers":
                count = one_a_core() if request.count is None else request.count
                found["num_workers"] = str(count)
                if request.count == 0:
                    found |= {"persistent_workers": "False", "prefetch_factor": "None"}
                    found["multiprocessing_context"] = "None"
            case "persistent-workers":
                found["persistent_workers"] = "True"
            case "prefetch-depth":
                found["prefetch_factor"] = str(request.count)
            case "unordered":
                found["in_order"] = "False"
            case "pinned-async":
                found["pin_memory"] = "True"
    return found


# What transformers' TrainingArguments puts before those of DataLoader's arguments that it has.
_OF_LIBRARY = "dataloader_"
_IN_LIBRARY = (
    *("num_workers", "pin_memory", "persistent_workers", "prefetch_factor"),
    "drop_last",
)
_SETTINGS = frozenset(f"{_OF_LIBRARY}{name}" for name in _IN_LIBRARY)

# Longer lines than this get a line of their own for what is added.
_LONGEST_LINE = 88

_SNIPPETS = {
    "native-threads": (
        "# in worker_init_fn, behind what it does already:\n"
        "torch.set_num_threads({count})\ncv2.setNumThreads({count})  # where OpenCV is used\n"
    ),
    "restore-affinity": (
        "mask = os.sched_getaffinity(0)  # in the training process\n"
        "# in worker_init_fn:\nos.sched_setaffinity(0, mask)\n"
    ),
    "allocator": (
        "# in the environment of the script:\n"
        "MALLOC_MMAP_THRESHOLD_=33554432 MALLOC_TRIM_THRESHOLD_=536870912\n"
    ),
    "pinned-async": (
        "# ask for the next batch, and copy it, before the step of this one:\n"
        "batches = iter(loader)\n"
        "following = next(batches).to(device, non_blocking=True)\n"
        "while following is not None:\n"
        "    batch, following = following, next(batches, None)\n"
        "    if following is not None:\n"
        "        following = following.to(device, non_blocking=True)\n"
        "    train_step(batch)\n"
    ),
    "cache-ram": (
        "# in the data set, with workers that live on (persistent_workers=True);\n"
        "# only if nothing in it is random: the first draw would come back in every epoch\n"
        "import functools\n"
        "@functools.lru_cache(maxsize=None)  # a cache of its own in each worker\n"
        "def __getitem__(self, index): ...\n"
    ),
    "cache-local": ("# before training:\ncp -r DATA {folder}  # and read from there\n"),
}

# Fixes in code that only its author can change, by their code; each is Python to adapt.
_BY_HAND = {
    "pack": """\
# once, in a shell; then the script reads it without a change:
#   stoker pack --from diagnosis.json PACK
#   stoker run --apply pack=PACK train.py
# or for good, where the data set is made:
import stoker.pack
dataset = stoker.pack.in_place_of(dataset, "PACK")
""",
    "device-augment": """\
# in the data set: nothing random, and the picture as uint8:
def __getitem__(self, index):
    ...
    return {"image": image, "label": label, "index": index}  # image: uint8, (C, H, W)

# in the loop: the random operations, on the whole batch on the device:
import stoker
recipe = stoker.augment.Recipe(stoker.augment.HorizontalFlip(), stoker.augment.Normalize())
batch["image"] = batch["image"].to(device, non_blocking=True)
batch = recipe(batch, epoch=epoch)  # every sample has draws of its own
""",
    "vectorise-collate": """\
# in the data set: an array in place of a list:
def __getitem__(self, index):
    ...
    return numpy.asarray(values, dtype=numpy.float32), label

# the batch from whole arrays:
def collate(samples):
    values, labels = zip(*samples)
    return torch.from_numpy(numpy.stack(values)), torch.tensor(labels)

loader = DataLoader(dataset, ..., collate_fn=collate)
""",
    "batched-fetch": """\
# in the data set: torch asks for whole batches where it has this:
def __getitems__(self, indices):
    return torch.from_numpy(self.rows[indices]), torch.from_numpy(self.labels[indices])

def as_it_is(batch):
    return batch

loader = DataLoader(dataset, ..., collate_fn=as_it_is)
""",
    "reopen-handle": """\
# in the data set: opened once in each worker, and never before it is forked:
def __init__(self, path):
    self.path, self._file = path, None

def __getitem__(self, index):
    if self._file is None:
        self._file = zipfile.ZipFile(self.path)
    return self.decode(self._file.read(self.names[index]))
""",
    "access-pattern of frames": """\
# seek to the first frame that is used, and read no others:
video = cv2.VideoCapture(path)
video.set(cv2.CAP_PROP_POS_FRAMES, first)
frames = [video.read()[1] for _ in range(count)]
""",
    "access-pattern of audio": """\
# the stretch that is used, and nothing else of the file:
wave, rate = soundfile.read(path, start=first, frames=count)
""",
    "access-pattern": """\
# groups in random order, and the samples of a few of them shuffled together; the data set
# keeps the last `few` groups that it has unpacked:
class ByGroup(torch.utils.data.Sampler):
    def __init__(self, groups, few=4):  # groups: the indices in each
        self.groups, self.few = groups, few

    def __len__(self):
        return sum(map(len, self.groups))

    def __iter__(self):
        groups = random.sample(self.groups, len(self.groups))
        for first in range(0, len(groups), self.few):
            together = list(itertools.chain(*groups[first : first + self.few]))
            yield from random.sample(together, len(together))

loader = DataLoader(dataset, ..., sampler=ByGroup(groups))
""",
    "cache-ram": """\
# in the data set, with workers that live on (persistent_workers=True):
import functools

@functools.lru_cache(maxsize=None)  # a cache of its own in each worker
def decoded(self, index):
    ...  # all that comes before the first random operation

def __getitem__(self, index):
    return self.transform(self.decoded(index))
""",
    "reduced-decode": """\
image = Image.open(path)
image.draft("RGB", (side, side))  # JPEG: decoded at 1/2, 1/4 or 1/8, never below this
image = image.convert("RGB").resize((side, side))
""",
    "smaller-payload": """\
# in the data set: the picture as uint8; in the loop:
images = images.to(device, non_blocking=True).float().div_(255)
""",
    "sync-less": """\
total = torch.zeros((), device=device)
for step, batch in enumerate(loader, start=1):
    total += train_step(batch).detach()  # stays on the device
    if step % 50 == 0:
        print(total.item() / 50)
        total.zero_()
""",
    "host-work-less": """\
if step % 50 == 0:  # or on tensors, in place of a loop over samples
    log(metric(predicted, wanted))
""",
    "metric-on-device": """\
right = torch.zeros((), dtype=torch.long, device=device)
for images, labels in validation:
    right += (model(images.to(device)).argmax(1) == labels.to(device)).sum()
accuracy = right.item() / len(validation.dataset)  # read back once
""",
    "flat-storage": """\
# in place of a list of strings: one buffer, and where each of them ends
encoded = [text.encode() for text in texts]
self.data = numpy.frombuffer(b"".join(encoded), numpy.uint8)
self.ends = numpy.cumsum([0, *map(len, encoded)])

def __getitem__(self, index):
    begin, end = self.ends[index], self.ends[index + 1]
    return self.data[begin:end].tobytes().decode()
""",
    "graph-capture": """\
model = torch.compile(model, mode="reduce-overhead")
loader = DataLoader(dataset, ..., drop_last=True)  # one shape for all batches
""",
}


def by_hand(fix: str, *, of: str = "") -> str:
    """What the author of the code would write for a fix, by its code; "" where it is no code.

    `of`: what is read too much of, "frames" or "audio", where that makes it another code.
    """
    return _BY_HAND.get(f"{fix} of {of}") or _BY_HAND.get(fix, "")


def change_of(script: str | None, requests: Sequence[Request]) -> str:
    """The diff of the script's source, its own options that do the same, and snippets for the rest.

    Of a module or a launcher (None) the source is not known: snippets alone.
    """
    keywords = keywords_of(requests)
    packed = next((request.folder for request in requests if request.name == "pack"), None)
    parts = []
    if keywords or packed is not None:
        found = _diff(Path(script), keywords, packed) if script is not None else []
        parts += found or [_call(keywords, packed)]
    for request in requests:
        snippet = _SNIPPETS.get(request.name)
        if snippet is not None:
            parts.append(snippet.format(count=request.count or 1, folder=request.folder))
    return "\n".join(parts)


def _call(keywords: dict[str, str], packed: str | None) -> str:
    """The loader as it is to be made, where it was not found in a source."""
    arguments = "".join(f", {name}={value}" for name, value in keywords.items())
    where = "# where the training loader is made:\n"
    if packed is None:
        return f"{where}DataLoader(…{arguments})\n"
    dataset = wrapped_call("dataset", packed)
    return f"{where}import stoker.pack\nDataLoader({dataset}, …{arguments})\n"


def _diff(path: Path, keywords: dict[str, str], packed: str | None) -> list[str]:
    try:
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source)
    except (OSError, ValueError, SyntaxError):
        return []
    call, others = _training_loader(tree), {}
    if call is None and packed is None:
        call = _with_settings(tree)
        others = _worth_a_word(
            {name: value for name, value in keywords.items() if name not in _IN_LIBRARY}
        )
        keywords = {
            f"{_OF_LIBRARY}{name}": value for name, value in keywords.items() if name in _IN_LIBRARY
        }
    if call is None:
        return []
    pack_edits = edits_for_pack(source, tree, call, packed) if packed is not None else []
    changed = with_keywords(source, call, keywords, pack_edits)
    lines = difflib.unified_diff(
        source.splitlines(keepends=True),
        changed.splitlines(keepends=True),
        f"a/{path.name}",
        f"b/{path.name}",
    )
    by_hand = _call(others, None) if others else ""
    parts = ("".join(lines), _own_options(tree, call, keywords), by_hand)
    return [text for text in parts if text]


def _own_options(tree: ast.Module, call: ast.Call, keywords: dict[str, str]) -> str:
    """How the script's own command line says it where the loader has it from an option."""
    lines = []
    for keyword in call.keywords:
        value = keywords.get(keyword.arg or "")
        if value is None or not isinstance(keyword.value, ast.Attribute):
            continue
        option = _option(tree, keyword.value.attr, value)
        if option is not None:
            has = f"{keyword.arg}={ast.unparse(keyword.value)}"
            lines.append(f"# the script has an option for it: {option} ({has})\n")
    return "".join(lines)


def _option(tree: ast.Module, name: str, value: str) -> str | None:
    """The words that give the attribute `name` of argparse's result this value."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument"):
            continue
        flags = [
            word.value
            for word in node.args
            if isinstance(word, ast.Constant) and isinstance(word.value, str)
        ]
        flag = next((one for one in flags if one.startswith("--")), None)
        given = {one.arg: getattr(one.value, "value", None) for one in node.keywords}
        if flag is None or given.get("dest", flag.lstrip("-").replace("-", "_")) != name:
            continue
        if given.get("action") in (None, "store"):
            return f"{flag} {value}" if value.isdecimal() else None
        return flag if (given["action"], value) == ("store_true", "True") else None
    return None


def _training_loader(tree: ast.Module) -> ast.Call | None:
    """The call that makes the training loader; None when there is none, or several might be it."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_loader(node)]
    if len(calls) <= 1:
        return calls[0] if calls else None
    named = [call for call in calls if _name_in(tree, call, "train")]
    inside = [call for call in calls if _is_in_function(tree, call, "train")]
    shuffled = [call for call in calls if _shuffles(call)]
    for some in (named, inside, shuffled):
        if len(some) == 1:
            return some[0]
    return None


def _with_settings(tree: ast.Module) -> ast.Call | None:
    """The call that takes a DataLoader's settings for a library that makes the loader itself; None
    when the script makes loaders, too, or there is more than one such call.
    """
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    found = [call for call in calls if _takes_settings(call)]
    is_clear = len(found) == 1 and not any(map(_is_loader, calls))
    return found[0] if is_clear else None


def _takes_settings(call: ast.Call) -> bool:
    has_one = any(keyword.arg in _SETTINGS for keyword in call.keywords)
    return has_one or (_called(call).endswith("TrainingArguments") and bool(call.keywords))


def _is_loader(call: ast.Call) -> bool:
    return _called(call) == "DataLoader" and bool(call.args or call.keywords)


def _called(call: ast.Call) -> str:
    """The last word of what is called."""
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _shuffles(call: ast.Call) -> bool:
    return any(
        keyword.arg in ("sampler", "batch_sampler")
        or (keyword.arg == "shuffle" and getattr(keyword.value, "value", None) is True)
        for keyword in call.keywords
    )


def _name_in(tree: ast.Module, call: ast.Call, word: str) -> bool:
    """True when the call's value goes to a variable whose name has the word in it."""
    return any(
        word in ast.unparse(target).lower()
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and node.value is call
        for target in node.targets
    )


def _is_in_function(tree: ast.Module, call: ast.Call, word: str) -> bool:
    """True within a function whose name has the word in it."""
    return any(
        word in node.name.lower() and any(inner is call for inner in ast.walk(node))
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    )


def with_keywords(
    source: str, call: ast.Call, keywords: dict[str, str], others: Sequence[Edit] = ()
) -> str:
    """The source with these arguments set in the call, the other edits, and all else as it was."""
    data = source.encode()
    offset = offsets(source)
    edits: list[Edit] = list(others)
    new = dict(keywords)
    for keyword in call.keywords:
        if keyword.arg in new:
            value = keyword.value
            begin = offset(value.lineno, value.col_offset)
            end = offset(value.end_lineno or value.lineno, value.end_col_offset or 0)
            edits.append((begin, end, new.pop(keyword.arg).encode()))
    new = _worth_a_word(new)
    if new:
        edits.append(_addition(data, call, new, offset))
    for begin, end, text in sorted(edits, reverse=True):
        data = data[:begin] + text + data[end:]
    return data.decode()


def _worth_a_word(keywords: dict[str, str]) -> dict[str, str]:
    """Without those that say the default."""
    return {
        name: value
        for name, value in keywords.items()
        if value not in ("None", "False") or name == "in_order"
    }


def _addition(data: bytes, call: ast.Call, new: dict[str, str], offset: Offset) -> Edit:
    """The further arguments, behind the last one, as it is laid out."""
    nodes: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    last = max(nodes, key=lambda node: (node.end_lineno or 0, node.end_col_offset or 0))
    end = offset(last.end_lineno or last.lineno, last.end_col_offset or 0)
    closing = offset(call.end_lineno or call.lineno, call.end_col_offset or 0) - 1
    words = [f"{name}={value}" for name, value in new.items()]
    on_one = ", ".join(("", *words)).encode()
    before = data.rfind(b"\n", 0, end) + 1
    first = min(node.col_offset for node in nodes if node.lineno == last.lineno)
    has_lines = last.lineno > call.lineno and b"\n" in data[end:closing]
    is_one_a_line = len({node.lineno for node in nodes}) == len(nodes) > 1
    if has_lines and (is_one_a_line or end - before + len(on_one) > _LONGEST_LINE):
        return end, end, "".join(f",\n{' ' * first}{word}" for word in words).encode()
    return end, end, on_one
