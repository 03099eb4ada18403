"""The operations of torch.distributed's backend "trainrun", called without torch.distributed, for a torch on whose GPU they can be
tried, and which is too old for backends in Python. Each against what the same gives on the processor; nothing but what the
backend itself says lets a stream wait."""
import datetime
import os
import sys

import torch
import torch._C._distributed_c10d as c10d

if sys.argv[1:] == ["--needed"]:
    try:
        c10d.Backend(0, 1)
        sys.exit(1)
    except TypeError:
        sys.exit(0)


class Backend:
    """As far as the backend asks it."""

    def __init__(self, rank, size):
        self.place = rank, size


c10d.Backend = Backend
import trainrun.torch._register  # noqa: E402,F401
from trainrun.torch._backend import TrainrunBackend  # noqa: E402

world = trainrun.init()
RANK, SIZE = world.rank, world.size
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
backend = TrainrunBackend(world, world, range(SIZE), None, datetime.timedelta(seconds=60))
TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.uint8, torch.int8, torch.bool)


def options(kind, **values):
    made = kind()
    for name, value in values.items():
        setattr(made, name, value)
    return made


def operations(device, dtype):
    """(name, the work, what it fills). What is given is computed on the stream that the operation has to wait for."""
    def made(*shape, salt=0):
        count = torch.Size(shape).numel()
        slow = torch.arange(count, device=device, dtype=torch.float64)
        for _ in range(20):  # so that it is not there yet when the operation is enqueued
            slow = slow + 1
        return (((slow - 20) * 7 + 3 * RANK + salt) % 5 + 1).to(dtype).reshape(shape)

    empty = lambda *shape: torch.zeros(shape, dtype=dtype, device=device)
    listed = lambda: [empty(6, 4) for _ in range(SIZE)]
    ops = c10d.ReduceOp
    for op in (ops.SUM, ops.MIN, ops.MAX, ops.PRODUCT, ops.AVG):
        if dtype == torch.bool and op == ops.AVG:
            continue
        mine = made(5, 7)
        yield f"allreduce {op}", backend.allreduce([mine], options(c10d.AllreduceOptions, reduceOp=op)), [mine]
        turned = made(5, 7).t()
        yield f"allreduce of columns {op}", backend.allreduce([turned], options(c10d.AllreduceOptions, reduceOp=op)), [turned]
        if dtype == torch.bool:
            continue
        own, out = made(6 * SIZE, 4), empty(6, 4)
        yield f"reduce_scatter {op}", backend._reduce_scatter_base(out, own, options(c10d.ReduceScatterOptions, reduceOp=op)), [out]
        last = made(5)
        work = backend.reduce([last], options(c10d.ReduceOptions, reduceOp=op, rootRank=SIZE - 1))
        yield f"reduce {op}", work, [last] if RANK == SIZE - 1 else []
    many = [made(3), made(4, 2)]
    yield "allreduce_coalesced", backend.allreduce_coalesced(many), many
    told = made(100001)
    yield "broadcast", backend.broadcast([told], options(c10d.BroadcastOptions, rootRank=1)), [told]
    every = listed()
    yield "allgather", backend.allgather([every], [made(6, 4)]), every
    flat = empty(6 * SIZE, 4)
    yield "allgather_base", backend._allgather_base(flat, made(6, 4)), [flat]
    to = [listed()] if RANK == 1 else []
    yield "gather", backend.gather(to, [made(6, 4)], options(c10d.GatherOptions, rootRank=1)), to[0] if to else []
    part = empty(6, 4)
    parts = [[made(6, 4, salt=other) for other in range(SIZE)]] if RANK == 1 else []
    yield "scatter", backend.scatter([part], parts, options(c10d.ScatterOptions, rootRank=1)), [part]
    crossed = empty(6 * SIZE, 4)
    yield "alltoall_base", backend.alltoall_base(crossed, made(6 * SIZE, 4), [], []), [crossed]
    gives, gets = [1 + (RANK + other) % 2 for other in range(SIZE)], [1 + (other + RANK) % 2 for other in range(SIZE)]
    split = empty(sum(gets), 4)
    yield "alltoall_base with splits", backend.alltoall_base(split, made(sum(gives), 4), gets, gives), [split]
    lists = [empty(3 + (other + RANK) % 2) for other in range(SIZE)]
    yield "alltoall", backend.alltoall(lists, [made(3 + (RANK + other) % 2) for other in range(SIZE)]), lists
    right, left, got = (RANK + 1) % SIZE, (RANK - 1) % SIZE, empty(300000)
    backend.send([made(300000)], right)  # all send before anybody receives
    yield "send and recv", backend.recv([got], left), [got]


def main():
    count = 0
    for dtype in TYPES:
        for how in ("wait", "future", "callback"):
            for (name, work, ours), (_, reference, theirs) in zip(operations("cuda", dtype), operations("cpu", dtype)):
                reference.wait()
                if how == "wait":
                    assert work.wait()
                elif how == "future":
                    work.get_future().wait()
                else:
                    ours = work.get_future().then(lambda _, ours=ours: [tensor + 0 if tensor.dtype != torch.bool else tensor | False for tensor in ours]).wait()
                for one, other in zip(ours, theirs):
                    close = {"rtol": 0.02, "atol": 0.02} if dtype in (torch.float16, torch.bfloat16) else {"rtol": 1e-6, "atol": 1e-6}
                    torch.testing.assert_close(one.cpu(), other, **close, msg=lambda text: f"{name} of {dtype}, {how}: {text}")
                torch.cuda.synchronize()  # also where this rank gets nothing
                assert work.is_completed() and work.is_success() and work.exception() is None
                count += 1
    backend.barrier()
    print(f"rank {RANK} of {SIZE}: {count} as on the processor, with torch {torch.__version__}", flush=True)
    if sys.argv[1:] == ["dies"]:
        tensor = torch.ones(100000, device="cuda")
        try:
            for step in range(10**9):
                backend.allreduce([tensor]).wait()
                torch.cuda.current_stream().synchronize()
                if step == 5 and RANK == SIZE - 1:
                    os.kill(os.getpid(), 9)
        except trainrun.PeerLost as error:
            print(f"rank {RANK}: lost rank {error.culprit}", flush=True)
            os._exit(3)


main()
