"""A loop of one's own over what Accelerate has prepared, gradients gathered over two batches."""

import torch
from accelerate import Accelerator
from data import arguments, classifier, digest, training_set
from torch import nn
from torch.utils.data import DataLoader


def main():
    args = arguments()
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = classifier()
    model, optimizer, loader = accelerator.prepare(
        model,
        torch.optim.AdamW(model.parameters(), lr=1e-3),
        DataLoader(
            training_set(args),
            batch_size=8,
            shuffle=True,
            num_workers=args.workers,
            persistent_workers=args.persistent,
        ),
    )
    for epoch in range(args.epochs):
        for batch in loader:
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(batch["input_ids"]), batch["labels"])
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
        accelerator.print(f"epoch {epoch}: loss {loss.item():.3f}")
    accelerator.print(f"weights {digest(model)}")


if __name__ == "__main__":
    main()
