"""A Trainer class with its loop inside, that validates after every epoch."""

import sys

import torch
from slow_numbers import Model, SlowNumbers
from torch.utils.data import DataLoader


class Trainer:
    def __init__(self, model, train, validation):
        self.model, self.train, self.validation = model, train, validation

    def fit(self, epochs):
        for _ in range(epochs):
            for batch in self.train:
                self.training_step(*batch)
            self.validate()

    def training_step(self, x, y):
        self.model.learn(x, y)

    def validate(self):
        with torch.set_grad_enabled("with-gradients" in sys.argv):
            for x, y in self.validation:
                self.model.loss(x, y)


train = DataLoader(SlowNumbers(length=80), batch_size=4, shuffle=True)
validation = DataLoader(SlowNumbers(length=160), batch_size=16)
Trainer(Model(), train, validation).fit(epochs=1000)
