#!/usr/bin/env python3
"""The digits example with unmodified PyTorch: DistributedDataParallel over gloo, started through env://.

    trainrun -np 4 python3 examples/torch_ddp/train.py
"""
import argparse
import gzip
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "digits", "data", "digits.csv.gz")


def read_digits(path):
    """Training and held-out pixels and labels; every fifth digit is held out."""
    with gzip.open(path, "rt", encoding="ascii") as file:
        rows = torch.tensor([[int(word) for word in line.split(",")] for line in file])
    pixels, labels = rows[:, :64].float() / 16, rows[:, 64]
    held_out = torch.arange(1, len(rows) + 1) % 5 == 0
    return (pixels[~held_out], labels[~held_out]), (pixels[held_out], labels[held_out])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=60, help="digits in a step, over all ranks together")
    parser.add_argument("--data", default=DATA)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    train, (pixels, labels) = read_digits(args.data)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    data = TensorDataset(*train)
    sampler = DistributedSampler(data, seed=1)
    loader = DataLoader(data, batch_size=max(1, args.batch // size), sampler=sampler)

    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        total = torch.zeros(1)
        for batch, wanted in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(batch), wanted)
            loss.backward()
            optimizer.step()
            total += loss.detach()
        dist.all_reduce(total)
        if rank == 0:
            print(f"epoch {epoch + 1:2}/{args.epochs}  loss {total.item() / size / len(loader):.4f}", flush=True)

    with torch.no_grad():
        right = (model(pixels[rank::size]).argmax(1) == labels[rank::size]).sum()
    dist.all_reduce(right)
    dist.barrier()
    if rank == 0:
        print(f"held-out accuracy {100 * right.item() / len(labels):.1f} %", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
