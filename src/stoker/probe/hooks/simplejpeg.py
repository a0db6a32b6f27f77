"""simplejpeg."""

from stoker.probe.hooks.calls import Call, Calls
from stoker.probe.hooks.counts import ARRAY

CALLS: Calls = {
    "simplejpeg": {
        "decode_jpeg": Call("decode (simplejpeg)", decodes=ARRAY),
        "decode_jpeg_header": Call("open (simplejpeg)"),
    }
}
