"""A training library over torch's DataLoader or over a face of Stoker: what the model was shown.

faces.py LIBRARY FACE; prints, as JSON, the samples in the order that the model saw them, the last
loss, and the names of the processes and threads that made them.
"""

import json
import os
import sys
import tempfile
import threading

import numpy as np
import torch
from torch import nn

SAMPLES, BATCH, EPOCHS = 24, 4, 2


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        is_here = os.getpid() == TRAINER
        maker = threading.current_thread().name if is_here else "worker process"
        return {
            "input_ids": torch.full((3,), float(index)),
            "labels": torch.tensor(index % 2),
            "maker": torch.tensor([KINDS.index(maker.rstrip("-0123456789"))]),
        }


TRAINER = os.getpid()
KINDS = ["MainThread", "stoker-loader", "worker process"]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.layer = nn.Linear(3, 2)
        self.seen, self.makers = [], set()

    def forward(self, input_ids, labels=None, maker=None, **_):
        if self.training:
            self.seen += input_ids[:, 0].int().tolist()
            self.makers |= set() if maker is None else {KINDS[n] for n in maker.flatten().tolist()}
        loss = nn.functional.cross_entropy(self.layer(input_ids), labels)
        return {"loss": loss, "logits": loss.detach()[None]}


def loader_of(face):
    """One of the faces, over the same samples in the same order."""
    torch.manual_seed(5)
    settings = {"batch_size": BATCH, "shuffle": True, "num_workers": 2}
    if face == "torch":
        return torch.utils.data.DataLoader(Numbers(), **settings)
    import stoker

    if face in ("threads", "processes"):
        return stoker.DataLoader(Numbers(), mode=face, **settings)
    from stoker.loader.faces import PackDataset, torch_loader
    from stoker.pack import write_arrays

    folder = tempfile.mkdtemp()
    numbers = np.arange(SAMPLES)
    arrays = {"input_ids": numbers[:, None].repeat(3, 1).astype(np.float32), "labels": numbers % 2}
    write_arrays(f"{folder}/pack", arrays)
    if face == "dataset":
        keys = list(arrays)
        return torch.utils.data.DataLoader(
            PackDataset(f"{folder}/pack"),
            collate_fn=lambda samples: {
                key: torch.as_tensor(np.stack([sample[n] for sample in samples]))
                for n, key in enumerate(keys)
            },
            **{**settings, "num_workers": 0},
        )
    return torch_loader(stoker.Loader(f"{folder}/pack", BATCH, shuffle=True, seed=5))


def plain(loader):
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(EPOCHS):
        for batch in loader:
            loss = model(**batch)["loss"]
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    return model, loss.item()


def accelerate(loader):
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    prepared, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for _ in range(EPOCHS):
        for batch in loader:
            loss = prepared(**batch)["loss"]
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
    return model, loss.item()


def lightning(loader):
    import lightning as library

    class Module(library.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = Model()

        def training_step(self, batch, _):
            self.last = self.model(**batch)["loss"]
            return self.last

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=1e-3)

    module = Module()
    library.Trainer(
        max_epochs=EPOCHS,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    ).fit(module, loader)
    return module.model, module.last.item()


def transformers(loader):
    from transformers import Trainer, TrainingArguments

    class Loaded(Trainer):
        def get_train_dataloader(self):
            return loader

    model = Model()
    trainer = Loaded(
        model=model,
        args=TrainingArguments(
            output_dir=tempfile.mkdtemp(),
            num_train_epochs=EPOCHS,
            per_device_train_batch_size=BATCH,
            use_cpu=True,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
        ),
        train_dataset=Numbers(),
    )
    return model, trainer.train().training_loss


if __name__ == "__main__":
    library, face = sys.argv[1:]
    model, loss = globals()[library](loader_of(face))
    said = {"seen": model.seen, "loss": loss, "makers": sorted(model.makers)}
    print("\n" + json.dumps(said))
