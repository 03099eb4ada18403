#!/usr/bin/env python3
"""The digits as a program of Horovod trains them. Of its lines one is trainrun's: the import.

    trainrun -np 4 python3 examples/torch_horovod/train.py
"""
import argparse
import gzip
import os

import torch
import torch.nn.functional as F
import torch.utils.data.distributed
import trainrun.torch as hvd  # was: import horovod.torch as hvd
from torch import nn, optim

DATA = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "digits", "data", "digits.csv.gz")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 10, kernel_size=3)
        self.fc1 = nn.Linear(90, 48)
        self.fc2 = nn.Linear(48, 10)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv(x), 2))
        x = F.relu(self.fc1(x.view(-1, 90)))
        return F.log_softmax(self.fc2(x), dim=1)


def read_digits(path):
    """Training and held-out digits; every fifth is held out."""
    with gzip.open(path, "rt", encoding="ascii") as file:
        rows = torch.tensor([[int(word) for word in line.split(",")] for line in file])
    pixels, labels = rows[:, :64].float().view(-1, 1, 8, 8) / 16, rows[:, 64]
    held_out = torch.arange(1, len(rows) + 1) % 5 == 0
    return [torch.utils.data.TensorDataset(pixels[some], labels[some]) for some in (~held_out, held_out)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--fp16-allreduce", action="store_true", help="gradients travel as 16 bits")
    parser.add_argument("--gradient-predivide-factor", type=float, default=1.0)
    parser.add_argument("--data", default=DATA)
    args = parser.parse_args()

    # Horovod: initialize library.
    hvd.init()
    torch.manual_seed(42)
    torch.set_num_threads(1)

    # Horovod: use DistributedSampler to partition the data.
    train_set, test_set = read_digits(args.data)
    train_sampler, test_sampler = (torch.utils.data.distributed.DistributedSampler(one, num_replicas=hvd.size(), rank=hvd.rank())
                                   for one in (train_set, test_set))
    train_loader = torch.utils.data.DataLoader(train_set, batch_size=args.batch_size, sampler=train_sampler)
    test_loader = torch.utils.data.DataLoader(test_set, batch_size=1000, sampler=test_sampler)

    # Horovod: scale learning rate by the number of ranks.
    model = Net()
    optimizer = optim.SGD(model.parameters(), lr=args.lr * hvd.size(), momentum=args.momentum)

    # Horovod: broadcast parameters & optimizer state.
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    # Horovod: wrap optimizer with DistributedOptimizer.
    compression = hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), compression=compression, op=hvd.Average,
                                         gradient_predivide_factor=args.gradient_predivide_factor)

    def metric_average(value, name):
        return hvd.allreduce(torch.tensor(value), name=name).item()

    def train(epoch):
        model.train()
        train_sampler.set_epoch(epoch)
        for data, target in train_loader:
            optimizer.zero_grad()
            F.nll_loss(model(data), target).backward()
            optimizer.step()

    def test(epoch):
        model.eval()
        loss = correct = 0.0
        with torch.no_grad():
            for data, target in test_loader:
                output = model(data)
                loss += F.nll_loss(output, target, reduction="sum").item()
                correct += output.argmax(1).eq(target).sum().item()
        # Horovod: average metric values across ranks.
        loss = metric_average(loss / len(test_sampler), "avg_loss")
        accuracy = metric_average(correct / len(test_sampler), "avg_accuracy")
        # Horovod: print output only on first rank.
        if hvd.rank() == 0:
            print(f"epoch {epoch:2}  held-out loss {loss:.4f}  accuracy {100 * accuracy:.1f} %", flush=True)

    for epoch in range(1, args.epochs + 1):
        train(epoch)
        test(epoch)


if __name__ == "__main__":
    main()
