"""zarr, versions 2 and 3: a slice reads whole chunks and undoes their compression."""

from stoker.probe.hooks.calls import Call, Calls
from stoker.probe.hooks.chunks import ZARR_ROWS

_ARRAY = {"Array.__getitem__": Call("read (zarr)", decodes=ZARR_ROWS)}

CALLS: Calls = {
    "zarr": {"open": Call("open (zarr)", path=0), "open_array": Call("open (zarr)", path=0)},
    "zarr.core": _ARRAY,
    "zarr.core.array": _ARRAY,
}
