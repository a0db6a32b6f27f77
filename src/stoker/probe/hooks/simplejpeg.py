"""simplejpeg."""

from stoker.probe.hooks.calls import Call, Calls

CALLS: Calls = {
    "simplejpeg": {
        "decode_jpeg": Call("decode (simplejpeg)"),
        "decode_jpeg_header": Call("open (simplejpeg)"),
    }
}
