"""A plain loop over a stoker.DataLoader; arguments: workers, mode, samples, counting."""

import sys

from slow_numbers import Model, SlowNumbers

import stoker


class Counting(SlowNumbers):
    """Its work holds the interpreter."""

    def __getitem__(self, index):
        sum(range(300_000))
        return super().__getitem__(index)


if __name__ == "__main__":
    workers, mode, length = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    data = Counting(length, 0.0) if "counting" in sys.argv else SlowNumbers(length)
    model = Model()
    loader = stoker.DataLoader(data, batch_size=4, shuffle=True, num_workers=workers, mode=mode)
    for _ in range(1000):
        for x, y in loader:
            model.learn(x, y)
