"""A prefetcher: the loader is iterated in a thread, batches come through a queue."""

import queue
import sys
import threading

from slow_numbers import Model, SlowNumbers
from torch.utils.data import DataLoader


def prefetched(loader, depth=2):
    waiting = queue.Queue(depth)

    def fill():
        for batch in loader:
            waiting.put(batch)
        waiting.put(None)

    threading.Thread(target=fill, daemon="stays" not in sys.argv).start()
    while (batch := waiting.get()) is not None:
        yield batch


model = Model()
loader = DataLoader(SlowNumbers(), batch_size=4)
for _ in range(1000):
    for x, y in prefetched(loader):
        loss = model.loss(x, y)
        loss.backward()
        if "no-optimizer" not in sys.argv:
            model.update()
