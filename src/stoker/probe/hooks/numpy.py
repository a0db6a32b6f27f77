"""NumPy's file readers. `frombuffer` copies nothing and is left out."""

from stoker.probe.hooks.calls import Call, Calls

CALLS: Calls = {
    "numpy": {
        "load": Call("read (NumPy)", path=0),
        "fromfile": Call("read (NumPy)", path=0),
        "loadtxt": Call("parse (NumPy)", path=0),
        "genfromtxt": Call("parse (NumPy)", path=0),
    },
    "numpy.lib._npyio_impl": {"NpzFile.__getitem__": Call("read (NumPy)")},
    "numpy.lib.npyio": {"NpzFile.__getitem__": Call("read (NumPy)")},
}
