"""h5py: a slice of a data set reads, and undoes its compression, inside one call."""

from stoker.probe.hooks.calls import Call, Calls
from stoker.probe.hooks.chunks import HDF5_ROWS

CALLS: Calls = {
    "h5py._hl.files": {"File.__init__": Call("open (h5py)", path=1)},
    "h5py._hl.dataset": {
        "Dataset.__getitem__": Call("read (h5py)", decodes=HDF5_ROWS),
        "Dataset.read_direct": Call("read (h5py)"),
    },
    "h5py._hl.group": {"Group.__getitem__": Call("look-up (h5py)")},
}
