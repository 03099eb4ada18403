"""A training on trainrun.torch.elastic, of nothing in particular, that says what becomes of it. usage: FOLDER [WORD ...]

It goes on until FOLDER/end is there. child: each rank has a child that outlives it and holds its sockets. commits: the
state is a copy, taken at each fifth step.
"""
import os
import signal
import sys
import time
import weakref

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from trainrun.torch import elastic

folder, words = sys.argv[1], sys.argv[2:]
torch.set_num_threads(1)


def say(*text):
    os.write(1, (" ".join(map(str, text)) + f" at {time.time():.4f}\n").encode())


def outlive():
    """As a loader of data may, for a minute at most."""
    until = time.monotonic() + 60
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while not os.path.exists(folder + "/end") and time.monotonic() < until:
            time.sleep(0.05)
        os._exit(0)


def wanted():
    """The same answer on all ranks."""
    end = torch.tensor([float(os.path.exists(folder + "/end"))])
    dist.all_reduce(end, dist.ReduceOp.MAX)
    return not end.item()


elastic.init()
torch.manual_seed(dist.get_rank())  # what ranks begin with differs: the state makes it equal
model = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
old = []  # of earlier worlds, which must be gone: their hooks would reduce each gradient once more
state = elastic.State(live="commits" not in words, model=model, optimizer=optimizer, history=[])


@elastic.run
def train(state):
    place = f"{state.world.generation} rank {dist.get_rank()} of {dist.get_world_size()}"
    say("world", place, "from step", state.steps, "pid", os.getpid())
    if "child" in words:
        outlive()
    if any(ddp() is not None for ddp in old):
        say("an old DistributedDataParallel lives")
    ddp = DistributedDataParallel(state.model)
    old.append(weakref.ref(ddp))
    begun = False
    while wanted():
        optimizer.zero_grad()
        ddp(torch.randn(8, 32)).pow(2).mean().backward()
        optimizer.step()
        state.step()
        if "commits" in words and state.steps % 5 == 0:
            state.history.append(state.steps)
            state.commit()
        if not begun:
            say("first", place, "step", state.steps)
        begun = True
        time.sleep(0.01)
    return dist.get_rank()


rank = train(state)
weights = sum(parameter.double().sum() for parameter in model.parameters()).item()
moments = sum(one["exp_avg"].double().sum() for one in optimizer.state_dict()["state"].values()).item()
say("end of rank", rank, "after step", state.steps, f"with {weights:.9f} {moments:.12f}", "history", len(state.history))
