"""Pillow. `Image.open` reads a header only: the pixels are decoded in `ImageFile.load`."""

from stoker.probe.hooks.calls import Call, Calls
from stoker.probe.hooks.counts import IMAGE

CALLS: Calls = {
    "PIL.Image": {
        "open": Call("open (Pillow)"),
        "Image.resize": Call("resize (Pillow)"),
        "Image.reduce": Call("resize (Pillow)"),
        "Image.convert": Call("convert (Pillow)"),
        "Image.crop": Call("crop (Pillow)"),
        "Image.rotate": Call("rotate (Pillow)"),
        "Image.transform": Call("warp (Pillow)"),
        "Image.transpose": Call("flip (Pillow)"),
        "Image.filter": Call("filter (Pillow)"),
        "Image.tobytes": Call("to-array (Pillow)"),
    },
    "PIL.ImageFile": {"ImageFile.load": Call("decode (Pillow)", decodes=IMAGE)},
}
