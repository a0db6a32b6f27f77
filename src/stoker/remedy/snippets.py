"""Code to adapt, where no argument of the loader says it: of remedies, and of fixes by hand.

Texts only.
"""

from __future__ import annotations

from stoker.remedy.request import Request

# Remedies, by their names.
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


def snippet_of(request: Request) -> list[str]:
    """What does the same as the remedy; nothing where arguments of the loader do."""
    snippet = _SNIPPETS.get(request.name)
    if snippet is None:
        return []
    return [snippet.format(count=request.count or 1, folder=request.folder)]


def by_hand(fix: str, *, of: str = "") -> str:
    """What the author of the code would write for a fix, by its code; "" where it is no code.

    `of`: what is read too much of, "frames" or "audio", where that makes it another code.
    """
    return _BY_HAND.get(f"{fix} of {of}") or _BY_HAND.get(fix, "")
