"""A rank of PyTorch on gloo, as scripts have it: nothing in it knows who started it.

sum            one allreduce, and who met
late RANK FILE that rank waits for FILE before it calls init_process_group
rounds N       N allreduces, a line after each; goes on wherever it is started
"""
import os
import sys
import time

import torch
import torch.distributed as dist


def meet():
    dist.init_process_group("gloo")
    return dist.get_rank(), dist.get_world_size()


def total():
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    return int(tensor[0])


def main(command, *words):
    if command == "late" and os.environ["RANK"] == words[0]:
        print("reading the data", file=sys.stderr)
        while not os.path.exists(words[1]):
            time.sleep(0.05)
    rank, size = meet()
    if command == "rounds":
        for round in range(int(words[0])):
            print(f"round {round}: {total()} ranks, pid {os.getpid()}", flush=True)
            time.sleep(0.05)
    print(f"rank {rank} of {size}: sum {total()}, store {os.environ['TORCHELASTIC_USE_AGENT_STORE']} at "
          f"{os.environ['MASTER_ADDR']}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


main(*sys.argv[1:])
