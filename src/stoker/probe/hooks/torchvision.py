"""torchvision's own readers and decoders; its transforms are found on the data set."""

from stoker.probe.hooks.calls import Call, Calls

CALLS: Calls = {
    "torchvision.io.image": {
        "read_file": Call("read (torchvision)", path=0),
        "read_image": Call("decode (torchvision)", path=0),
        "decode_image": Call("decode (torchvision)"),
        "decode_jpeg": Call("decode (torchvision)"),
        "decode_png": Call("decode (torchvision)"),
    },
    "torchvision.io.video": {"read_video": Call("decode (torchvision)", path=0)},
}
