"""A Dataset over a pack as source text, for who has none of Stoker's in the training."""

from __future__ import annotations

from stoker.split import Cut


def snippet(spec: str, cut: Cut, folder: str) -> str:
    """A Dataset over the pack that applies what stays, as text to be taken over."""
    module, _, name = spec.rpartition(":")
    module = module.removesuffix(".py").rpartition("/")[2]
    call = f"{name}()" if name[:1].isupper() else name
    return f"""from PIL import Image
from {module} import {name}
from stoker.pack import open_pack

class Packed:
    def __init__(self, folder={folder!r}):
        self.pack = open_pack(folder)
        self.rest = {call}{cut.row.expression}[{cut.once}:]

    def __len__(self):
        return len(self.pack.usable)

    def __getitem__(self, position):
        index = int(self.pack.usable[position])
        image = Image.fromarray(self.pack.value("image", index))
        for transform in self.rest:
            image = transform(image)
        return image, int(self.pack.value("label", index))
"""
