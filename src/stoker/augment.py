"""`stoker.augment`: random changes to whole batches of uint8 pictures, each sample its own.

What happens to a sample is a function of (seed, epoch, its index): the same for any batch, rank,
thread or device it is in. Needs torch, which `import stoker` does not load.
"""

# One list of names, kept where they are made.
from stoker.loader.augment import *  # noqa: F403
from stoker.loader.augment import __all__ as __all__
