"""Ranks that call operations of equal kind, type and size by two names, rank 1 in the other order, or with tensors of two shapes:
all hear of it, and of the name and the shape that they called themselves.

    horovod_names.py allreduce | waits | broadcast | gather | object | parameters | same
    horovod_names.py shapes KIND
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


def shapes(kind):
    """What the two ranks call is of as many elements; the first shape or word in the failure is ours."""
    first = hvd.rank() == 0
    shape = (2, 4) if first else (4, 2)
    calls = {
        "allreduce": lambda: hvd.allreduce(torch.ones(shape)),
        "in_place": lambda: hvd.synchronize(hvd.allreduce_async_(torch.ones(shape), name="gain")),
        "grouped": lambda: hvd.grouped_allreduce([torch.ones(shape[0]), torch.ones(shape[1])]),
        "broadcast": lambda: hvd.broadcast(torch.ones(shape), 0),
        "parameters": lambda: hvd.broadcast_parameters([("gain", torch.ones(shape))], 0),
        "allgather": lambda: hvd.allgather(torch.ones(1, *shape)),
        "grouped_allgather": lambda: hvd.grouped_allgather([torch.ones(3), torch.ones(1, *shape)]),
        "alltoall": lambda: hvd.alltoall(torch.ones(2, *shape)),
        "reducescatter": lambda: hvd.reducescatter(torch.ones(shape)),
        "scaled": lambda: hvd.allreduce(torch.ones(3, dtype=torch.int64), op=hvd.Sum, prescale_factor=shape[0]),
        "scattered": lambda: hvd.reducescatter(torch.ones(2), postscale_factor=shape[0]),
        "optimizer": lambda: hvd.broadcast_optimizer_state((torch.optim.SGD if first else torch.optim.Adam)([torch.ones(1)], 1), 0),
        "set": lambda: hvd.add_process_set([0] if first else [1]),
    }
    words = {"scaled": f"scaled by {shape[0]}.0 before", "scattered": f"{shape[0]}.0 after", "set": f"the ranks [{hvd.rank()}]",
             "grouped": f"of shapes ({shape[0]},), ({shape[1]},)", "optimizer": "an optimizer " + ("SGD" if first else "Adam")}
    try:
        calls[kind]()
        print(f"rank {hvd.rank()} has heard nothing", flush=True)
    except Mismatch as error:
        assert words.get(kind, str(shape)) in str(error) and str(error).count("[another name or shape]") == 1, error
        print(f"rank {hvd.rank()}: {error}", flush=True)


def main():
    hvd.init()
    if sys.argv[1] == "shapes":
        return shapes(sys.argv[2])
    call = {"object": thing, "same": allreduce}.get(sys.argv[1]) or globals()[sys.argv[1]]
    names = ["gain", "loss"] if sys.argv[1] == "same" or hvd.rank() != 1 else ["loss", "gain"]
    try:
        for handle in [call(name) for name in names]:
            if handle is not None:
                hvd.synchronize(handle)
        print(f"rank {hvd.rank()} has heard nothing", flush=True)
    except Mismatch as error:
        assert f"[{names[0]!r}" in str(error), error
        print(f"rank {hvd.rank()}: {error}", flush=True)


main()
