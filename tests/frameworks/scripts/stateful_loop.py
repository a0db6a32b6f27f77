"""The plain loop over torchdata's StatefulDataLoader."""

import torch
from data import arguments, classifier, digest, training_set
from torch import nn
from torchdata.stateful_dataloader import StatefulDataLoader


def main():
    args = arguments()
    loader = StatefulDataLoader(
        training_set(args),
        batch_size=8,
        shuffle=True,
        num_workers=args.workers,
        persistent_workers=args.persistent,
    )
    model = classifier()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(args.epochs):
        for batch in loader:
            loss = nn.functional.cross_entropy(model(batch["input_ids"]), batch["labels"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print(loader.state_dict())
    print(f"weights {digest(model)}")


if __name__ == "__main__":
    main()
