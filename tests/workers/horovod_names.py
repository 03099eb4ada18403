"""Ranks that call operations of equal kind, type and size by two names, rank 1 in the other order: all hear of it, and of the name
that they called themselves.

    horovod_names.py allreduce | waits | broadcast | gather | object | parameters | same
"""
import sys

import torch
import trainrun.torch as hvd
from trainrun import Mismatch


def allreduce(name):
    return hvd.allreduce_async(torch.ones(3), name=name)


def waits(name):
    hvd.grouped_allreduce([torch.ones(3), torch.ones(2)], name=name)


def broadcast(name):
    hvd.broadcast_(torch.ones(3), 0, name=name)


def gather(name):
    hvd.allgather(torch.ones(1 + hvd.rank(), 2), name=name)


def thing(name):
    hvd.broadcast_object([1, 2], name=name)


def parameters(name):
    hvd.broadcast_parameters([(name, torch.ones(3))], 0)


def main():
    hvd.init()
    call = {"object": thing, "same": allreduce}.get(sys.argv[1]) or globals()[sys.argv[1]]
    names = ["gain", "loss"] if sys.argv[1] == "same" or hvd.rank() != 1 else ["loss", "gain"]
    try:
        for handle in [call(name) for name in names]:
            if handle is not None:
                hvd.synchronize(handle)
        print(f"rank {hvd.rank()} has heard nothing", flush=True)
    except Mismatch as error:
        assert f"is {names[0]!r} on this rank" in str(error), error
        print(f"rank {hvd.rank()}: {error}", flush=True)


main()
