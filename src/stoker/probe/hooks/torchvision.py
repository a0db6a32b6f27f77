"""torchvision's own readers and decoders; its transforms are found on the data set."""

from stoker.probe.hooks.calls import Call, Calls
from stoker.probe.hooks.counts import FRAMES_WITH_SOUND, TENSOR

CALLS: Calls = {
    "torchvision.io.image": {
        "read_file": Call("read (torchvision)", path=0),
        "read_image": Call("decode (torchvision)", path=0, decodes=TENSOR),
        "decode_image": Call("decode (torchvision)", decodes=TENSOR),
        "decode_jpeg": Call("decode (torchvision)", decodes=TENSOR),
        "decode_png": Call("decode (torchvision)", decodes=TENSOR),
    },
    "torchvision.io.video": {
        "read_video": Call("decode (torchvision video)", path=0, decodes=FRAMES_WITH_SOUND)
    },
}
