"""A rank of PyTorch on gloo, as scripts have it: nothing in it knows who started it.

sum            one allreduce, and who met
late RANK FILE that rank waits for FILE before it calls init_process_group
rounds N       N allreduces, a line after each; goes on wherever it is started
elsewhere PORT FILE   all but rank 0 use a store of their own at PORT until there is FILE
first          each takes itself for the first of a world of one, for four seconds
alone          computes for four seconds, and meets nobody
library FILE   the same, with this library
more N         takes the world to be of so many ranks
"""
import ctypes
import os
import sys
import time

import torch
import torch.distributed as dist


def meet():
    dist.init_process_group("gloo")
    return dist.get_rank(), dist.get_world_size()


def compute(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        torch.ones(64, 64).matmul(torch.ones(64, 64))


def wait_for(file):
    while not os.path.exists(file):
        time.sleep(0.05)


def total():
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    return int(tensor[0])


def main(command, *words):
    if command == "late" and os.environ["RANK"] == words[0]:
        print("reading the data", file=sys.stderr)
        wait_for(words[1])
    if command == "elsewhere" and os.environ["RANK"] != "0":
        store = dist.TCPStore("127.0.0.1", int(words[0]), None, os.environ["RANK"] == "1", wait_for_workers=False)
        wait_for(words[1])
        del store
    if command == "first":
        os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1")
    if command == "library":
        ctypes.CDLL(words[0])
    if command in ("alone", "library"):
        return compute(4)
    if command == "more":
        os.environ["WORLD_SIZE"] = words[0]
    rank, size = meet()
    if command == "first":
        compute(4)
    if command == "rounds":
        for round in range(int(words[0])):
            print(f"round {round}: {total()} ranks, pid {os.getpid()}", flush=True)
            time.sleep(0.05)
    print(f"rank {rank} of {size}: sum {total()}, store {os.environ['TORCHELASTIC_USE_AGENT_STORE']} at "
          f"{os.environ['MASTER_ADDR']}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


main(*sys.argv[1:])
