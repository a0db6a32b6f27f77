"""The plain loop over torchdata's StatefulDataLoader."""

import torch
from data import Sequences, arguments, classifier
from torch import nn
from torchdata.stateful_dataloader import StatefulDataLoader


def main():
    args = arguments()
    loader = StatefulDataLoader(
        Sequences(800, args.sample_ms), batch_size=8, shuffle=True, num_workers=args.workers
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


if __name__ == "__main__":
    main()
