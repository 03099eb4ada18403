"""Handwritten digits, as an elastic script of Horovod trains them: of the program that starts it, it knows nothing. It ends
after the epoch in which --stop-file is there, or after --epochs."""
import argparse
import gzip
import os
import select
import socket

import horovod.torch as hvd
import torch
import torch.nn.functional as F
from torch import nn, optim

DATA = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../../examples/digits/data/digits.csv.gz")
parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--epochs", type=int, default=1000000)
parser.add_argument("--lr", type=float, default=0.01)
parser.add_argument("--momentum", type=float, default=0.9)
parser.add_argument("--pause", type=float, default=0.0, help="seconds to rest after each batch")
parser.add_argument("--stop-file", default="")
args = parser.parse_args()

hvd.init()
torch.manual_seed(42)
torch.set_num_threads(1)


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


train_set, test_set = read_digits(DATA)
sampler = hvd.elastic.ElasticSampler(train_set, shuffle=True)
loader = torch.utils.data.DataLoader(train_set, batch_size=args.batch_size, sampler=sampler)
model = Net()
optimizer = optim.SGD(model.parameters(), lr=args.lr * hvd.size(), momentum=args.momentum)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())


def accuracy():
    """Of the held-out digits, each rank looking at its share."""
    model.eval()
    pixels, labels = test_set.tensors
    with torch.no_grad():
        right = model(pixels[hvd.rank()::hvd.size()]).argmax(1).eq(labels[hvd.rank()::hvd.size()]).sum()
    return hvd.allreduce(right.float(), name="right", op=hvd.Sum).item() / len(labels)


@hvd.elastic.run
def train(state):
    print(f"world of {hvd.size()}: rank {hvd.rank()}, {hvd.local_rank()} of {hvd.local_size()} here, {hvd.cross_rank()} of "
          f"{hvd.cross_size()} across, from step {state.step}, pid {os.getpid()} on {socket.gethostname()}", flush=True)
    while state.epoch < args.epochs and not state.stop:
        model.train()
        for index, (data, target) in enumerate(loader):
            optimizer.zero_grad()
            F.nll_loss(model(data), target).backward()
            optimizer.step()
            sampler.record_batch(index, args.batch_size)
            state.step += 1
            select.select([], [], [], args.pause)
            state.commit()
        state.accuracy = accuracy()
        state.stop = hvd.broadcast_object(os.path.exists(args.stop_file), root_rank=0)
        state.epoch += 1
        sampler.set_epoch(state.epoch)
        if hvd.rank() == 0:
            print(f"epoch {state.epoch}, step {state.step}: held-out accuracy {100 * state.accuracy:.1f} %", flush=True)
        state.commit()


def scale_lr():
    for group in optimizer.param_groups:
        group["lr"] = args.lr * hvd.size()


state = hvd.elastic.TorchState(model=model, optimizer=optimizer, sampler=sampler, epoch=0, step=0, accuracy=0.0, stop=False)
state.register_reset_callbacks([scale_lr])
train(state)
print(f"end of rank {hvd.rank()} of {hvd.size()}: held-out accuracy {100 * state.accuracy:.1f} %", flush=True)
