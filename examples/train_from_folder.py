"""Train from a folder of photos through stoker.Loader: resumable, augmented, channels last.

    python train_from_folder.py FOLDER [--epochs 2] [--checkpoint state.pt]

Stop it at any point and start it again: it goes on with the batch that comes next.
"""

import argparse
from pathlib import Path

import torch

import stoker


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--checkpoint", type=Path, default=Path("state.pt"))
    args = parser.parse_args()

    augment = stoker.augment
    loader = stoker.Loader(
        args.folder,
        batch_size=16,
        shuffle=True,
        crop=augment.RandomResizedCrop(64),
        augment=augment.Recipe(augment.HorizontalFlip(), augment.Normalize()),
    )
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 5, stride=4),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(16, len(loader.classes)),
    ).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    if args.checkpoint.exists():
        saved = torch.load(args.checkpoint)
        model.load_state_dict(saved["model"])
        loader.load_state_dict(saved["loader"])
        print(f"going on at {loader.state_dict()}")

    while loader.epoch < args.epochs:
        epoch = loader.epoch
        for batch in loader:
            loss = torch.nn.functional.cross_entropy(model(batch["image"]), batch["label"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            saved = {"model": model.state_dict(), "loader": loader.state_dict()}
            torch.save(saved, args.checkpoint)
        print(f"epoch {epoch}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
