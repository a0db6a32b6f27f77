"""A plain loop; arguments: workers, start method, persistent."""

import sys

from slow_numbers import Model, SlowNumbers
from torch.utils.data import DataLoader

if __name__ == "__main__":
    workers = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    options = {}
    if workers:
        options["multiprocessing_context"] = sys.argv[2] if len(sys.argv) > 2 else None
        options["persistent_workers"] = "persistent" in sys.argv
    model = Model()
    loader = DataLoader(SlowNumbers(), batch_size=4, shuffle=True, num_workers=workers, **options)
    for _ in range(1000):
        for x, y in loader:
            model.learn(x, y)
