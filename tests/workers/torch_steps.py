"""A DDP script with a checkpoint of one line: says when it has done three steps, and in its first life one rank is killed."""
import os
import sys
import time

AHEAD = "torch" in sys.modules
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

folder = sys.argv[1]
first = not os.path.exists(folder + "/restarted")
dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(8, 64)).pow(2).mean().backward()
    optimizer.step()
print(f"rank {dist.get_rank()} ahead {AHEAD} threads {torch.get_num_threads()}", flush=True)
with open(f"{folder}/{'first' if first else 'second'}.{dist.get_rank()}", "w", encoding="ascii") as file:
    file.write(repr(time.time()))
dist.barrier()
if first and dist.get_rank() == dist.get_world_size() - 1:
    with open(folder + "/restarted", "w", encoding="ascii") as file:
        file.write(repr(time.time()))
    os.kill(os.getpid(), 9)
elif first:
    time.sleep(600)
dist.destroy_process_group()
