"""OpenCV. `imread` opens, reads and decodes in one call."""

from stoker.probe.hooks.calls import Call, Calls

CALLS: Calls = {
    "cv2": {
        "imread": Call("decode (OpenCV)", path=0),
        "imdecode": Call("decode (OpenCV)"),
        "resize": Call("resize (OpenCV)"),
        "cvtColor": Call("convert (OpenCV)"),
        "warpAffine": Call("warp (OpenCV)"),
        "warpPerspective": Call("warp (OpenCV)"),
        "remap": Call("warp (OpenCV)"),
        "GaussianBlur": Call("filter (OpenCV)"),
        "flip": Call("flip (OpenCV)"),
    }
}
