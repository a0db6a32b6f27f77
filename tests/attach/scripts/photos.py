"""A small training on real photos: crops of scikit-image's pictures, a linear model, fixed seed.

Loading draws no random numbers; the order, the first weights and the dropout do.
"""

import argparse
import hashlib
import sys
import time

import numpy as np
import torch
from skimage import data
from torch.utils.data import DataLoader, Dataset

SIDE = 64


class Crops(Dataset):
    """Crops of a few photos, with the number of their photo."""

    def __init__(self, per_photo, wait_s, fails_in_workers, fails_at):
        self.photos = [data.astronaut(), data.chelsea(), data.coffee()]
        self.per_photo = per_photo
        self.wait_s = wait_s
        self.fails_in_workers = fails_in_workers
        self.fails_at = fails_at

    def __len__(self):
        return len(self.photos) * self.per_photo

    def __getitem__(self, index):
        if self.fails_in_workers and torch.utils.data.get_worker_info() is not None:
            raise RuntimeError("this handle does not work in a worker")
        if index == self.fails_at:
            raise ValueError(f"sample {index} is broken")
        photo = self.photos[index % len(self.photos)]
        top = 7 * index % (photo.shape[0] - SIDE)
        left = 13 * index % (photo.shape[1] - SIDE)
        time.sleep(self.wait_s)
        crop = np.ascontiguousarray(photo[top : top + SIDE, left : left + SIDE])
        return torch.from_numpy(crop).permute(2, 0, 1).float() / 255, index % len(self.photos)


def accelerator():
    """A device whose copies take time; what is on it are views of the same numbers."""
    import stoker

    return stoker.EmulatedAccelerator(0.001, link_bytes_per_s=1e9)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--per-photo", type=int, default=32)
    parser.add_argument("--wait-s", type=float, default=0.0)
    parser.add_argument("--step-s", type=float, default=0.0)
    parser.add_argument("--fails-in-workers", action="store_true")
    parser.add_argument("--fails-at", type=int)
    parser.add_argument("--start", default="fork")
    parser.add_argument("--exit", type=int, default=0)
    parser.add_argument("--leave-after", type=int)
    parser.add_argument("--children", action="store_true", help="count them behind the last epoch")
    parser.add_argument("--link", action="store_true", help="copy batches to an emulated device")
    args = parser.parse_args()
    torch.multiprocessing.set_start_method(args.start)
    torch.manual_seed(7)
    torch.set_num_threads(1)
    crops = Crops(args.per_photo, args.wait_s, args.fails_in_workers, args.fails_at)
    loader = DataLoader(crops, batch_size=8, shuffle=True, num_workers=args.workers)
    model = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Dropout(0.2), torch.nn.Linear(3 * SIDE * SIDE, 3)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    place = accelerator().to_device if args.link else lambda images: images
    for epoch in range(args.epochs):
        losses = []
        for images, labels in loader:
            time.sleep(args.step_s)
            loss = torch.nn.functional.cross_entropy(model(place(images)), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if len(losses) == args.leave_after:
                break
        print(epoch, len(losses), losses[-1].hex(), flush=True)
        assert loader.num_workers == args.workers
    if args.children:
        print("children", len(torch.multiprocessing.active_children()), file=sys.stderr)
    weights = b"".join(part.detach().numpy().tobytes() for part in model.parameters())
    print("weights", hashlib.sha256(weights).hexdigest())
    sys.exit(args.exit)


if __name__ == "__main__":
    main()
