"""PyAV and decord. PyAV's containers and codecs are compiled classes that cannot be patched."""

from stoker.probe.hooks.calls import Call, Calls

CALLS: Calls = {
    "av": {"open": Call("open (PyAV)", path=0)},
    "decord.video_reader": {
        "VideoReader.__init__": Call("open (decord)", path=1),
        "VideoReader.__getitem__": Call("decode (decord)"),
        "VideoReader.get_batch": Call("decode (decord)"),
        "VideoReader.seek": Call("seek (decord)"),
    },
}
