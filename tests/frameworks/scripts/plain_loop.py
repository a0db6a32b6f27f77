"""The loop that the other scripts are held against."""

import torch
from data import arguments, classifier, digest, training_set
from torch import nn
from torch.utils.data import DataLoader


def main():
    args = arguments()
    loader = DataLoader(
        training_set(args),
        batch_size=8,
        shuffle=True,
        num_workers=args.workers,
        persistent_workers=args.persistent,
    )
    model = classifier()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        for batch in loader:
            loss = nn.functional.cross_entropy(model(batch["input_ids"]), batch["labels"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}")
    print(f"weights {digest(model)}")


if __name__ == "__main__":
    main()
