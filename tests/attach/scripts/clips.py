"""A small training on clips of videos, each read from its beginning up to the clip's end."""

import argparse
import time
from pathlib import Path

import cv2
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

CLIP = 4


class Clips(Dataset):
    def __init__(self, folder, first):
        self.paths = sorted(str(path) for path in Path(folder).glob("*.avi"))
        self.first = first

    def __len__(self):
        return 4000

    def __getitem__(self, index):
        capture = cv2.VideoCapture(self.paths[index % len(self.paths)])
        frames = [capture.read()[1] for _ in range(self.first + CLIP)]
        capture.release()
        clip = np.stack([cv2.resize(frame, (32, 32)) for frame in frames[self.first :]])
        return torch.from_numpy(clip).permute(3, 0, 1, 2).float() / 255


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--first", type=int, default=60)
    parser.add_argument("--workers", type=int, default=1)
    args = parser.parse_args()
    cv2.setNumThreads(1)
    torch.set_num_threads(1)
    clips = Clips(args.folder, args.first)
    loader = DataLoader(clips, batch_size=4, shuffle=True, num_workers=args.workers)
    model = torch.nn.Linear(3 * CLIP * 32 * 32, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    for clip in loader:
        loss = model(clip.flatten(1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(0.005)


if __name__ == "__main__":
    main()
