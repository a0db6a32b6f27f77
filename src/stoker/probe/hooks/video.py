"""PyAV, decord, torchcodec. PyAV's containers and codecs are compiled and cannot be patched.

What is decoded on the way to the frames that are asked for, the others do not say.
"""

from stoker.probe.hooks.calls import Call, Calls
from stoker.probe.hooks.counts import FRAME_DATA, FRAMES, FRAMES_OR_ONE

_DECODED_BY = (
    *("get_frame_at", "get_frames_at", "get_frames_in_range"),
    *("get_frame_played_at", "get_frames_played_at", "get_frames_played_in_range"),
)

CALLS: Calls = {
    "av": {"open": Call("open (PyAV)", path=0)},
    "decord.video_reader": {
        "VideoReader.__init__": Call("open (decord)", path=1),
        "VideoReader.__getitem__": Call("decode (decord)", decodes=FRAMES_OR_ONE),
        "VideoReader.get_batch": Call("decode (decord)", decodes=FRAMES),
        "VideoReader.seek": Call("seek (decord)"),
    },
    "torchcodec.decoders._video_decoder": {
        "VideoDecoder.__init__": Call("open (torchcodec)", path=1),
        "VideoDecoder.__getitem__": Call("decode (torchcodec)", decodes=FRAMES_OR_ONE),
        **{
            f"VideoDecoder.{name}": Call("decode (torchcodec)", decodes=FRAME_DATA)
            for name in _DECODED_BY
        },
    },
}
