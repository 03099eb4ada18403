"""A rank of PyTorch on trainrun's backend.

table      every operation, on several types and shapes, with and without waiting, against gloo in the same process
training   DDP and FSDP2, the losses of each step against gloo's
layers DIR DTensor, ZeroRedundancyOptimizer, torch.distributed.checkpoint
kill HOW   rank 1 kills itself in the middle of: plain, future, ddp
"""
import datetime
import gc
import os
import signal
import sys
import weakref

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import trainrun
import trainrun.torch

DEVICE = os.environ.get("COMM_TEST_DEVICE", "cpu")  # tests/gpu/run: "cuda"
if DEVICE != "cpu":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
dist.init_process_group("trainrun")
RANK, SIZE = dist.get_rank(), dist.get_world_size()
OPS = dist.ReduceOp
backend = dist.group.WORLD._get_backend(torch.device("cpu"))
ran = set()


def numbers(*shape, dtype=torch.float32, rank=RANK, device="cpu"):
    count = torch.Size(shape).numel()
    made = ((torch.arange(count) * 7 + 3 * rank) % 5 + 1).to(device, dtype)
    return made.reshape(shape)


def turned(*shape, dtype=torch.float32, device="cpu"):
    """Not contiguous."""
    return numbers(*reversed(shape), dtype=dtype, device=device).t() if len(shape) == 2 else numbers(shape[0] * 2, dtype=dtype, device=device)[::2]


def together(made):
    """The same contiguous: of others, torch 2.15's gloo makes something else in reduce_scatter."""
    return lambda *shape, dtype, device: made(*shape, dtype=dtype, device=device).contiguous()


def operations(group, made, dtype, device="cpu"):
    """(name, a call that gives the work or None, the tensors that it fills) of each operation, on new tensors."""
    own = lambda: made(6, 4, dtype=dtype, device=device)
    empty = lambda *shape: torch.zeros(shape, dtype=dtype, device=device)
    listed = lambda: [empty(6, 4) for _ in range(SIZE)]
    to, source = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    big = lambda: made(6 * SIZE, 4, dtype=dtype, device=device)
    splits_in = [1 + (RANK + r) % 2 for r in range(SIZE)]
    splits_out = [1 + (r + RANK) % 2 for r in range(SIZE)]
    reductions = [OPS.BAND, OPS.BOR, OPS.BXOR] if dtype == torch.int64 and DEVICE == "cpu" else []
    if dtype != torch.bool:
        for op in (OPS.SUM, OPS.MIN, OPS.MAX, OPS.PRODUCT, *reductions):
            t = own(); yield f"all_reduce {op}", lambda **k: dist.all_reduce(t, op, group=group, **k), [t]
            r = own(); yield f"reduce {op}", lambda **k: dist.reduce(r, 1, op, group=group, **k), [r] if RANK == 1 else []
        i, o = [own() for _ in range(SIZE)], empty(6, 4)
        yield "reduce_scatter", lambda **k: dist.reduce_scatter(o, i, group=group, **k), [o]
        i1, o1 = big(), empty(6, 4)
        yield "reduce_scatter_tensor", lambda **k: dist.reduce_scatter_tensor(o1, i1, group=group, **k), [o1]
        two = [own(), own()]
        yield "all_reduce_coalesced", lambda **k: dist.all_reduce_coalesced(two, group=group, **k), two
    b = own(); yield "broadcast", lambda **k: dist.broadcast(b, 1, group=group, **k), [b]
    g = listed(); yield "all_gather", lambda **k: dist.all_gather(g, own(), group=group, **k), g
    a = empty(6 * SIZE, 4); yield "all_gather_into_tensor", lambda **k: dist.all_gather_into_tensor(a, own(), group=group, **k), [a]
    h = listed() if RANK == 1 else None
    yield "gather", lambda **k: dist.gather(own(), h, 1, group=group, **k), h or []
    s = empty(6, 4)
    yield "scatter", lambda **k: dist.scatter(s, [own() for _ in range(SIZE)] if RANK == 1 else None, 1, group=group, **k), [s]
    x = empty(6 * SIZE, 4); yield "all_to_all_single", lambda **k: dist.all_to_all_single(x, big(), group=group, **k), [x]
    v = empty(sum(splits_out), 4)
    yield "all_to_all_single split", lambda **k: dist.all_to_all_single(v, made(sum(splits_in), 4, dtype=dtype, device=device), splits_out, splits_in,
                                                                        group=group, **k), [v]
    p = empty(6, 4)

    def around(async_op=False):
        works = dist.batch_isend_irecv([dist.P2POp(dist.isend, own(), to, group), dist.P2POp(dist.irecv, p, source, group)])
        for work in works:
            work.wait()
    yield "send and recv", around, [p]


def wait(work):
    if isinstance(work, torch._C.Future):
        work.wait()
    elif work is not None:
        assert work.wait(datetime.timedelta(seconds=60))


def table():
    gloo = dist.new_group(backend="gloo")
    for name in dir(type(backend)):
        if name in OURS:
            count(name)
    good = 0
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.uint8, torch.int8, torch.bool):
        for made in (numbers, turned):
            for waits in (True, False):
                pairs = zip(operations(dist.group.WORLD, made, dtype, DEVICE), operations(gloo, together(made), dtype))
                for (name, ours, mine), (_, theirs, others) in pairs:
                    theirs()
                    wait(ours(async_op=not waits))
                    for one, other in zip(mine, others):
                        # Gloo rounds 16-bit floats at each step, the library once.
                        close = dict(rtol=0.02, atol=0.02) if dtype in (torch.float16, torch.bfloat16) else dict(rtol=1e-6, atol=1e-6)
                        torch.testing.assert_close(one.cpu(), other, msg=lambda text: f"{name} of {dtype}: {text}", **close)
                    good += 1
    for more in (single, objects, halves, splits, watched, nested, polled) if DEVICE == "cpu" else ():
        more()
    print(f"rank {RANK} of {SIZE}: {good} as gloo; did not run: {sorted(OURS - ran)}", flush=True)


OURS = {"allreduce", "allreduce_coalesced", "reduce", "broadcast", "allgather", "allgather_coalesced", "all_gather_single",
        "all_gather_single_coalesced", "_allgather_base", "allgather_into_tensor_coalesced", "gather", "gather_single",
        "gather_into_tensor", "scatter", "reduce_scatter", "reduce_scatter_single", "reduce_scatter_single_coalesced",
        "_reduce_scatter_base", "reduce_scatter_tensor_coalesced", "all_to_all_single", "alltoall_base", "alltoall", "barrier", "send",
        "recv"}


def count(name):
    inner = getattr(type(backend), name)

    def counted(self, *words, **more):
        ran.add(name)
        return inner(self, *words, **more)
    setattr(type(backend), name, counted)


def single():
    """What torch's functions do not lead to in this release: by the names of the backend."""
    c10d = torch._C._distributed_c10d
    mine, all_of_us = numbers(4), torch.cat([numbers(4, rank=rank) for rank in range(SIZE)])
    total = sum(numbers(4, rank=rank) for rank in range(SIZE))
    for name in ("_allgather_base", "all_gather_single"):
        out = torch.zeros(4 * SIZE)
        wait(getattr(backend, name)(out, mine))
        assert torch.equal(out, all_of_us), name
    for name in ("all_gather_single_coalesced", "allgather_into_tensor_coalesced"):
        outs = [torch.zeros(4 * SIZE), torch.zeros(4 * SIZE)]
        wait(getattr(backend, name)(outs, [mine, mine]))
        assert torch.equal(outs[1], all_of_us), name
    lists = [[torch.zeros(4)] for _ in range(SIZE)]
    wait(backend.allgather_coalesced(lists, [mine]))
    assert torch.equal(torch.cat([part[0] for part in lists]), all_of_us)
    whole = numbers(1).new_ones(4 * SIZE)
    for name in ("_reduce_scatter_base", "reduce_scatter_single"):
        out = torch.zeros(4)
        wait(getattr(backend, name)(out, whole, c10d.ReduceScatterOptions()))
        assert torch.equal(out, torch.full((4,), float(SIZE))), name
    for name in ("reduce_scatter_single_coalesced", "reduce_scatter_tensor_coalesced"):
        outs = [torch.zeros(4)]
        wait(getattr(backend, name)(outs, [whole], c10d.ReduceScatterOptions()))
        assert torch.equal(outs[0], torch.full((4,), float(SIZE))), name
    for name in ("gather_single", "gather_into_tensor"):
        out, options = torch.zeros(4 * SIZE), c10d.GatherOptions()
        options.rootRank = 0
        wait(getattr(backend, name)(out, mine, options))
        assert RANK != 0 or torch.equal(out, all_of_us), name
    for name in ("alltoall_base", "all_to_all_single"):
        out = torch.zeros(SIZE)
        wait(getattr(backend, name)(out, torch.arange(float(SIZE)), [], []))
        assert torch.equal(out, torch.full((SIZE,), float(RANK))), name
    outs = [torch.zeros(2) for _ in range(SIZE)]
    dist.all_to_all(outs, [torch.full((2,), float(rank)) for rank in range(SIZE)])
    assert torch.equal(torch.cat(outs), torch.full((2 * SIZE,), float(RANK)))
    options = c10d.AllreduceCoalescedOptions()
    two = [mine.clone(), mine.clone()]
    wait(backend.allreduce_coalesced(two, options))
    assert torch.equal(two[1], total)
    mean = numbers(4)
    dist.all_reduce(mean, OPS.AVG)
    assert torch.allclose(mean, total / SIZE)
    wave = torch.complex(numbers(3), numbers(3))
    dist.all_reduce(wave)
    dist.broadcast(wave, 0)
    wave = torch.complex(mine, 2 * mine)
    dist.reduce(wave, 0)
    assert RANK != 0 or torch.equal(wave, torch.complex(total, 2 * total))
    part = torch.zeros(1, dtype=torch.complex64)
    dist.reduce_scatter_tensor(part, torch.complex(torch.arange(float(SIZE)), torch.ones(SIZE)))
    assert part.item() == complex(SIZE * RANK, SIZE)
    dist.barrier()
    for refused in (lambda: dist.recv(mine), lambda: dist.isend(mine, (RANK + 1) % SIZE, tag=5),
                    lambda: dist.all_reduce(torch.ones(2, dtype=torch.int16)),
                    lambda: dist.reduce(torch.ones(2, dtype=torch.complex64), 0, OPS.PRODUCT)):
        try:
            refused()
        except trainrun.Unsupported:
            continue
        raise AssertionError("not refused")


def objects():
    everyone = [None] * SIZE
    dist.all_gather_object(everyone, {"rank": RANK})
    assert [one["rank"] for one in everyone] == list(range(SIZE))
    told = [RANK, "words"] if RANK == 1 else [None, None]
    dist.broadcast_object_list(told, 1)
    assert told == [1, "words"]
    mine = [None]
    dist.scatter_object_list(mine, [f"for {rank}" for rank in range(SIZE)] if RANK == 0 else None, 0)
    assert mine == [f"for {RANK}"]
    gathered = [None] * SIZE if RANK == 0 else None
    dist.gather_object(RANK, gathered, 0)
    assert RANK != 0 or gathered == list(range(SIZE))


def halves():
    """Groups of some ranks have operations of their own; and what torch hands out tells of its end."""
    groups = [dist.new_group([rank for rank in range(SIZE) if rank % 2 == part]) for part in (0, 1)]
    mine = groups[RANK % 2]
    value = torch.tensor([float(RANK)])
    dist.all_reduce(value, group=mine)
    assert value.item() == sum(rank for rank in range(SIZE) if rank % 2 == RANK % 2)
    work = dist.all_reduce(torch.ones(3), async_op=True)
    future = work.get_future()
    assert torch.equal(future.wait()[0], torch.full((3,), float(SIZE))) and future.done()
    while not work.is_completed():  # by torch's own wrapper, which does not ask the backend for this
        pass
    value = torch.ones(3)
    kept, work = weakref.ref(value), dist.all_reduce(value, async_op=True)
    work.wait()
    assert work.is_completed()
    del value, work, future
    gc.collect()
    assert kept() is None, "a tensor outlives its operation"
    own = backend.allreduce([torch.ones(3)])
    own.wait()
    assert own.is_completed() and own.is_success() and own.exception() is None
    if RANK == 0:  # the others come when it has said that it waits
        late = backend.barrier()
        try:
            late.wait(datetime.timedelta(milliseconds=50))
            raise AssertionError("the barrier has ended alone")
        except trainrun.Timeout:
            assert not late.is_completed()
        for rank in range(1, SIZE):
            dist.send(torch.ones(1), rank)
        late.wait()
    else:
        dist.recv(torch.ones(1), 0)
        dist.barrier()


def splits():
    parts = [[rank for rank in range(SIZE) if rank % 2 == part] for part in (0, 1)]
    value = torch.tensor([float(RANK)])
    dist.all_reduce(value, group=dist.split_group(split_ranks=parts))
    assert value.item() == sum(parts[RANK % 2])
    try:
        dist.split_group(split_ranks=[[1]])
        assert RANK == 1
    except trainrun.Unsupported as error:
        assert RANK != 1 and "try: new_group" in str(error), error


def nested():
    """What follows a future may wait for another one, as DDP's hook for PowerSGD does."""
    def after(depth):
        if depth == 0:
            return torch.zeros(1)
        summed = dist.all_reduce(torch.ones(4), async_op=True).get_future().then(lambda future: future.value()[0] + after(depth - 1)[0])
        return summed.wait()
    for _ in range(20):
        assert torch.equal(after(3), torch.full((4,), 3.0 * SIZE)), after(3)


def watched():
    """A monitored barrier names who has not come, and goes on."""
    dist.monitored_barrier()
    if RANK == 1:
        for rank in range(SIZE):
            if rank != RANK:
                dist.recv(torch.ones(1), rank)
        dist.monitored_barrier()
        return
    try:
        dist.monitored_barrier(timeout=datetime.timedelta(milliseconds=200))
        raise AssertionError("the barrier has ended without rank 1")
    except trainrun.Timeout as error:
        assert 1 in error.missing and str(error).endswith(" not come within 0.2 s"), (error, error.missing)
    dist.send(torch.ones(1), 1)


def polled():
    """Who asks whether something has come is told so at once."""
    got, other = torch.zeros(3), 1 - RANK
    if RANK < 2:
        work = dist.irecv(got, other)
        work.is_completed()
        dist.isend(torch.full((3,), float(RANK)), other).wait()
        work.wait()
        assert got.tolist() == [float(other)] * 3 and work.is_completed(), got


def model(device=DEVICE):
    torch.manual_seed(0)
    made = torch.nn.Sequential(torch.nn.Linear(32, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
    return made.to(device)


def losses(trained, device, steps=20):
    optimizer, made = torch.optim.SGD(trained.parameters(), 0.01), torch.Generator().manual_seed(1 + RANK)
    for _ in range(steps):
        x = torch.randn(16, 32, generator=made).to(device)
        loss = (trained(x) - x.sum(1, keepdim=True)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()


def shard(group, device=DEVICE):
    mesh = DeviceMesh.from_group(group, device)
    made = model(device)
    for layer in made:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh)
    return fully_shard(made, mesh=mesh)


def training():
    gloo = dist.new_group(backend="gloo")
    for name, of in (("DDP", lambda group, device: DistributedDataParallel(model(device), process_group=group, bucket_cap_mb=0.1)), ("FSDP2", shard)):
        ours, theirs = list(losses(of(dist.group.WORLD, DEVICE), DEVICE)), list(losses(of(gloo, "cpu"), "cpu"))
        worst = max(abs(a - b) / max(abs(b), 1e-6) for a, b in zip(ours, theirs))
        assert worst < 1e-4 and ours[-1] < ours[0], (name, worst, ours, theirs)
        print(f"rank {RANK} of {SIZE}: {name} as gloo, within {worst:.1e}", flush=True)


def layers(folder):
    """What stands on the operations: DTensor, an optimizer in shards, checkpoints."""
    import torch.distributed.checkpoint as checkpoint
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    mesh = DeviceMesh.from_group(dist.group.WORLD, DEVICE)
    whole = torch.arange(float(8 * SIZE * SIZE), device=DEVICE).reshape(2 * SIZE, 4 * SIZE)
    rows = distribute_tensor(whole, mesh, [Shard(0)])
    columns = rows.redistribute(mesh, [Shard(1)])
    assert torch.equal(columns.to_local(), whole.chunk(SIZE, 1)[RANK])
    assert torch.equal((rows @ columns.redistribute(mesh, [Replicate()]).t()).full_tensor(), whole @ whole.t())

    def trained(make):
        replica = DistributedDataParallel(model())
        optimizer = make(replica.parameters())
        for step in range(5):
            optimizer.zero_grad()
            replica(numbers(4, 32, rank=RANK + step, device=DEVICE)).pow(2).mean().backward()
            optimizer.step()
        return replica.module.state_dict()
    whole_one = trained(lambda parameters: torch.optim.Adam(parameters, 0.01))
    in_shards = trained(lambda parameters: ZeroRedundancyOptimizer(parameters, torch.optim.Adam, lr=0.01))
    for name in whole_one:
        torch.testing.assert_close(in_shards[name], whole_one[name])

    sharded = shard(dist.group.WORLD)
    before = {name: value.full_tensor() for name, value in sharded.state_dict().items()}
    checkpoint.save(sharded.state_dict(), checkpoint_id=folder)
    with torch.no_grad():
        for parameter in sharded.parameters():
            parameter.zero_()
    state = sharded.state_dict()
    checkpoint.load(state, checkpoint_id=folder)
    sharded.load_state_dict(state)
    for name, value in sharded.state_dict().items():
        assert torch.equal(value.full_tensor(), before[name]), name
    print(f"rank {RANK} of {SIZE}: DTensor, ZeRO and checkpoints", flush=True)


def kill(how):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the launcher's: first say what was heard
    trained = DistributedDataParallel(model()) if how == "ddp" else None
    try:
        for step in range(1_000_000):
            if RANK == 1 and step == 5:
                os.kill(os.getpid(), signal.SIGKILL)
            if how == "ddp":
                trained(torch.randn(4, 32, device=DEVICE)).sum().backward()
            elif how == "future":
                dist.all_reduce(torch.ones(1000, device=DEVICE), async_op=True).get_future().wait()
            elif how == "group":
                dist.new_group(list(range(SIZE)))
            else:
                dist.all_reduce(torch.ones(1000, device=DEVICE))
    except RuntimeError as error:
        assert isinstance(error, trainrun.PeerLost) or how in ("future", "ddp") and "PeerLost: " in str(error), error
        error = trainrun.torch.failure()  # of a future, torch passes on the words alone
        print(f"rank {RANK}: lost rank {error.culprit} on {error.host}", flush=True)
        sys.exit(3)


{"table": table, "training": training, "layers": layers, "kill": kill}[sys.argv[1]](*sys.argv[2:])
dist.destroy_process_group()
