"""What can be done about a damaged pack: told wherever damage is found, in the same words."""

from __future__ import annotations

import shlex
from pathlib import Path

from stoker.pack.manifest import Manifest


def way_to_repair(folder: Path, found: Manifest) -> str:
    """What makes the damaged shards of this pack again, as far as its manifest tells."""
    pack = shlex.quote(str(folder))
    anew = f"remove {pack} and make it anew"
    if found.origin.kind == "arrays":
        return f"restore a copy, or {anew} with write_arrays"
    if found.origin.count != found.samples:
        return f"restore a copy, or {anew}: it was made from several sources"
    again = f"stoker pack SRC {pack} --repack, with the options of then, makes damaged shards again"
    if found.origin.kind == "dataset":  # named by itself or by a diagnosis: a pack doesn't tell
        return f"{again}; if it was made by --from, {anew}: stoker pack --from DIAGNOSIS {pack}"
    return f"{again}; or restore a copy"
