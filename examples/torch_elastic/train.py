#!/usr/bin/env python3
"""The digits with PyTorch's DistributedDataParallel, in a process group that outlives its ranks.

    trainrun -np 4 --min-np 2 --preload auto python3 examples/torch_elastic/train.py

Kill ranks, pull hosts, add hosts: the others go on from the last step.
"""
import argparse
import gzip
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from trainrun.torch import elastic

DATA = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "digits", "data", "digits.csv.gz")


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
    parser.add_argument("--pace", type=float, default=0, help="a step takes at least so many seconds: time to pull plugs")
    args = parser.parse_args()

    torch.manual_seed(1)
    (pixels, labels), (held_pixels, held_labels) = read_digits(args.data)
    data = TensorDataset(pixels, labels, torch.arange(len(labels)))
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    sampler = elastic.DistributedSampler(data, seed=1)
    # Instead of dist.init_process_group("gloo"). What takes time is done by now: from here on the others wait for this one.
    elastic.init()
    state = elastic.State(model=model, optimizer=optimizer, sampler=sampler, epoch=0, used=torch.zeros(len(data)))

    @elastic.run
    def train(state):
        rank, size = dist.get_rank(), dist.get_world_size()
        print(f"generation {state.world.generation}: rank {rank} of {size}, epoch {state.epoch}, step {state.steps}", flush=True)
        ddp = DistributedDataParallel(state.model)  # anew in each world
        loader = DataLoader(data, batch_size=max(1, args.batch // size), sampler=sampler)
        while state.epoch < args.epochs:
            sampler.set_epoch(state.epoch)  # goes on where it was
            for batch, wanted, numbers in loader:
                due = time.monotonic() + args.pace
                used = torch.zeros(len(data)).index_add_(0, numbers, torch.ones(len(numbers)))
                dist.all_reduce(used)  # which digits this step uses, on all ranks: to show below that none is lost
                optimizer.zero_grad()
                nn.functional.cross_entropy(ddp(batch), wanted).backward()
                optimizer.step()
                state.used += used
                state.step(len(wanted))  # right behind optimizer.step()
                time.sleep(max(0.0, due - time.monotonic()))
            if rank == 0:
                print(f"epoch {state.epoch + 1:2}/{args.epochs}  digits never used: {(state.used == 0).sum().item()}", flush=True)
            state.epoch += 1
            state.used = torch.zeros(len(data))

        with torch.no_grad(), state.pause():
            right = (model(held_pixels[rank::size]).argmax(1) == held_labels[rank::size]).sum()
        dist.all_reduce(right)
        return rank, 100 * right.item() / len(held_labels)

    rank, accuracy = train(state)
    if rank == 0:
        print(f"held-out accuracy {accuracy:.1f} %", flush=True)


if __name__ == "__main__":
    main()
