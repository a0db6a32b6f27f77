"""The loop that the other scripts are held against."""

import torch
from data import Sequences, arguments, classifier
from torch import nn
from torch.utils.data import DataLoader


def main():
    args = arguments()
    loader = DataLoader(
        Sequences(800, args.sample_ms), batch_size=8, shuffle=True, num_workers=args.workers
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


if __name__ == "__main__":
    main()
