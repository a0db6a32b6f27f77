"""A LightningModule, and a Trainer with its defaults: sanity check, progress bar, checkpoints."""

import lightning
import torch
from data import Sequences, arguments, classifier, digest, training_set
from torch import nn
from torch.utils.data import DataLoader


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = classifier()

    def training_step(self, batch, _):
        loss = nn.functional.cross_entropy(self.model(batch["input_ids"]), batch["labels"])
        self.log("loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, _):
        right = self.model(batch["input_ids"]).argmax(-1) == batch["labels"]
        self.log("accuracy", right.float().mean())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main():
    args = arguments()
    loader = DataLoader(
        training_set(args),
        batch_size=8,
        shuffle=True,
        num_workers=args.workers,
        persistent_workers=args.persistent,
    )
    validation = DataLoader(Sequences(32, 0.0), batch_size=8)
    trainer = lightning.Trainer(max_epochs=args.epochs, accelerator="cpu")
    classifier = Classifier()
    trainer.fit(classifier, loader, validation)
    print(f"weights {digest(classifier)}")


if __name__ == "__main__":
    main()
