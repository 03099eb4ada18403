#!/usr/bin/env python3
"""The digits example with Lightning, which is told nothing about its launcher but how many ranks there are.

    trainrun -np 4 python3 examples/lightning/train.py

With --checkpoints it goes on from the last one at each start, so a failure costs an epoch at most; --preload imports once a host:

    trainrun -np 4 --max-restarts 5 --preload torch,lightning python3 examples/lightning/train.py --checkpoints /shared/digits
"""
import argparse
import gzip
import os

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

DATA = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "digits", "data", "digits.csv.gz")


def read_digits(path):
    """Training and held-out digits; every fifth is held out."""
    with gzip.open(path, "rt", encoding="ascii") as file:
        rows = torch.tensor([[int(word) for word in line.split(",")] for line in file])
    held_out = torch.arange(1, len(rows) + 1) % 5 == 0
    return [TensorDataset(rows[part, :64].float() / 16, rows[part, 64]) for part in (~held_out, held_out)]


class Digits(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))

    def training_step(self, batch, _):
        pixels, labels = batch
        return nn.functional.cross_entropy(self.network(pixels), labels)

    def on_train_epoch_end(self):
        if self.trainer.is_global_zero:
            print(f"epoch {self.current_epoch + 1}/{self.trainer.max_epochs} on {self.trainer.world_size} ranks", flush=True)

    def test_step(self, batch, _):
        pixels, labels = batch
        right = (self.network(pixels).argmax(1) == labels).float().mean()
        self.log("accuracy", right, batch_size=len(labels), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=60, help="digits in a step, over all ranks together")
    parser.add_argument("--data", default=DATA)
    parser.add_argument("--checkpoints", help="a directory that all hosts see; a start goes on from the last one in it")
    args = parser.parse_args()

    # What trainrun sets, as torchrun does.
    ranks, here, hosts = (int(os.environ[name]) for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE"))
    lightning.seed_everything(1, verbose=False)
    train, held_out = read_digits(args.data)
    saves = [ModelCheckpoint(args.checkpoints, save_last=True)] if args.checkpoints else []
    trainer = lightning.Trainer(
        accelerator="auto", devices=here, num_nodes=hosts, strategy="ddp", max_epochs=args.epochs, callbacks=saves, logger=False,
        enable_checkpointing=bool(saves), enable_progress_bar=False, enable_model_summary=False)
    last = os.path.join(args.checkpoints or "", "last.ckpt")
    resumes = os.path.exists(last)
    if resumes and trainer.is_global_zero:
        print(f"going on from {last}", flush=True)
    model = Digits()
    trainer.fit(model, DataLoader(train, batch_size=max(1, args.batch // ranks), shuffle=True), ckpt_path=last if resumes else None)
    # A rank's share of the held-out digits is padded to equal lengths, so the figure may be off by a digit.
    accuracy = trainer.test(model, DataLoader(held_out, batch_size=1000), verbose=False)[0]["accuracy"]
    if trainer.is_global_zero:
        print(f"held-out accuracy {100 * accuracy:.1f} %", flush=True)


if __name__ == "__main__":
    main()
