#!/usr/bin/env python3
"""The digits example with unmodified PyTorch: DistributedDataParallel over gloo, started through env://.

    trainrun -np 4 python3 examples/torch_ddp/train.py

With --checkpoint it can be started again at any time, with any number of ranks, so failures cost an epoch at most:

    trainrun -np 4 --min-np 2 python3 examples/torch_ddp/train.py --checkpoint /shared/digits.pt
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

DATA = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "digits", "data", "digits.csv.gz")


def read_digits(path):
    """Training and held-out pixels and labels; every fifth digit is held out."""
    with gzip.open(path, "rt", encoding="ascii") as file:
        rows = torch.tensor([[int(word) for word in line.split(",")] for line in file])
    pixels, labels = rows[:, :64].float() / 16, rows[:, 64]
    held_out = torch.arange(1, len(rows) + 1) % 5 == 0
    return (pixels[~held_out], labels[~held_out]), (pixels[held_out], labels[held_out])


def save(path, model, optimizer, epochs_done):
    """Whole or not at all: a restart must never find half a checkpoint."""
    state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epochs_done": epochs_done}
    torch.save(state, path + ".new")
    os.replace(path + ".new", path)


def load(path, model, optimizer):
    """Rank 0 alone needs to see the file; its state is everybody's. Gives the number of epochs that are done."""
    states = [torch.load(path) if dist.get_rank() == 0 and os.path.exists(path) else None]
    dist.broadcast_object_list(states)
    if states[0] is None:
        return 0
    model.module.load_state_dict(states[0]["model"])
    optimizer.load_state_dict(states[0]["optimizer"])
    return states[0]["epochs_done"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=60, help="digits in a step, over all ranks together")
    parser.add_argument("--data", default=DATA)
    parser.add_argument("--checkpoint", help="rank 0 saves here after each epoch; goes on from it if it exists")
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

    first = load(args.checkpoint, model, optimizer) if args.checkpoint else 0
    if rank == 0 and first > 0:
        print(f"going on after epoch {first} on {size} ranks", flush=True)

    for epoch in range(first, args.epochs):
        sampler.set_epoch(epoch)
        total = torch.zeros(1)
        for batch, wanted in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(batch), wanted)
            loss.backward()
            optimizer.step()
            total += loss.detach()
        dist.all_reduce(total)
        if rank == 0 and args.checkpoint:
            save(args.checkpoint, model, optimizer, epoch + 1)
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
