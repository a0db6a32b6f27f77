"""Text and pickles of the standard library turned into objects."""

from stoker.probe.hooks.calls import Call, Calls

CALLS: Calls = {
    "json": {"load": Call("parse (json)"), "loads": Call("parse (json)")},
    "pickle": {"load": Call("parse (pickle)"), "loads": Call("parse (pickle)")},
    "csv": {"DictReader.__next__": Call("parse (csv)")},
    "torch": {"load": Call("parse (torch.load)")},
}
