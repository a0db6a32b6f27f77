"""OpenCV. `imread` opens, reads and decodes in one call; a video's `grab` decodes, too."""

from stoker.probe.hooks.calls import Call, Calls
from stoker.probe.hooks.counts import ARRAY, ONE_FRAME

CALLS: Calls = {
    "cv2": {
        "imread": Call("decode (OpenCV)", path=0, decodes=ARRAY),
        "imdecode": Call("decode (OpenCV)", decodes=ARRAY),
        "resize": Call("resize (OpenCV)"),
        "cvtColor": Call("convert (OpenCV)"),
        "warpAffine": Call("warp (OpenCV)"),
        "warpPerspective": Call("warp (OpenCV)"),
        "remap": Call("warp (OpenCV)"),
        "GaussianBlur": Call("filter (OpenCV)"),
        "flip": Call("flip (OpenCV)"),
        "VideoCapture.__init__": Call("open (OpenCV video)", path=1),
        "VideoCapture.open": Call("open (OpenCV video)", path=1),
        "VideoCapture.set": Call("seek (OpenCV video)"),
        "VideoCapture.read": Call("decode (OpenCV video)", decodes=ONE_FRAME),
        "VideoCapture.grab": Call("decode (OpenCV video)", decodes=ONE_FRAME),
        "VideoCapture.retrieve": Call("decode (OpenCV video)"),
    }
}
