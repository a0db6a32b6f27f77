"""A Dataset over a pack as source text, to be taken over into a script."""

from __future__ import annotations

from typing import Any

from stoker.pack.recipe import cut_sample
from stoker.pack.sources.dataset import SAMPLE_ERRORS, expression_of, load_object
from stoker.split import Cut, cut_at

# Samples that are asked for until one can be made.
_TRIED = 8


def snippet(spec: str, once: int, folder: str, *, is_resized: bool) -> str:
    """A Dataset over the pack that applies the transforms behind the first `once`, as text.

    Of (picture, label) through transforms of one value it needs Stoker for nothing but reading; any
    other is made again by `in_place_of`, which compares it with the Dataset, and can't where
    pictures were resized: then the text is empty.
    """
    dataset = load_object(spec)
    cut = cut_at(dataset, once)
    if cut is None:
        return ""
    line, expression = expression_of(spec)
    if _is_picture_and_label(dataset, cut):
        return _OWN.format(
            line=line, folder=repr(folder), rest=f"{expression}{cut.row.expression}[{once}:]"
        )
    return "" if is_resized else _IN_PLACE.format(line=line, whole=expression, folder=repr(folder))


def _is_picture_and_label(dataset: Any, cut: Cut) -> bool:
    """True for a tuple of an RGB picture, alone handed to the transforms, and a whole number."""
    for index in range(min(_TRIED, len(dataset))):
        try:
            sample, recorder = cut_sample(dataset, cut.row, cut.once, index)
        except SAMPLE_ERRORS:  # a broken sample
            continue
        if type(sample) is not tuple or len(sample) != 2 or len(recorder.calls) != 1:
            return False
        picture, label = sample
        args, named = recorder.calls[0]
        is_alone = len(args) == 1 and args[0] is picture and not named
        return is_alone and getattr(picture, "mode", "") == "RGB" and type(label) is int
    return False


_IN_PLACE = """import stoker.pack
{line}

dataset = stoker.pack.in_place_of({whole}, {folder})
"""
_OWN = """from PIL import Image
{line}
from stoker.pack import open_pack

class Packed:
    def __init__(self, folder={folder}):
        self.pack = open_pack(folder)
        self.rest = {rest}

    def __len__(self):
        return len(self.pack.usable)

    def __getitem__(self, position):
        index = int(self.pack.usable[position])
        image = Image.fromarray(self.pack.value("image", index))
        for transform in self.rest:
            image = transform(image)
        return image, int(self.pack.value("label", index))
"""
