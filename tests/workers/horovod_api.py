"""Horovod's API on trainrun's collectives, one verb a group of operations. Each rank makes the tensors of all by itself, and
compares what it gets with a reference that it forms in double or in whole numbers. horovod_api.py VERB [ARGUMENT]"""
import json
import os
import signal
import sys
import time

import torch
import trainrun
import trainrun.torch as hvd
from horovod_objects import objects, refused  # beside this file
from trainrun.torch.horovod import _place

torch.set_num_threads(1)
DEVICE = os.environ.get("COMM_TEST_DEVICE", "cpu")  # tests/gpu/run: "cuda"
if DEVICE != "cpu":
    torch.set_default_device(DEVICE)  # for what is made here; the library's own tensors are where they must be
FLOATS = {torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.float32: 1e-6, torch.float64: 1e-12}
INTEGERS = (torch.uint8, torch.int8, torch.int32, torch.int64)
SHAPES = ((), (0,), (1,), (5,), (3, 4), (2, 3, 5), (1001,), (70000,))


def made(rank, shape, dtype, salt=0):
    """Different on each rank, the same each time; small whole numbers, so that sums are exact in every type."""
    generator = torch.Generator().manual_seed(1000 * rank + salt)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator, device="cpu").to(DEVICE, dtype)
    return torch.randint(0 if dtype == torch.uint8 else -3, 4, shape, generator=generator, device="cpu").to(DEVICE, dtype)


def of_all(shape, dtype, salt=0, ranks=None):
    return [made(rank, shape, dtype, salt) for rank in (range(hvd.size()) if ranks is None else ranks)]


def equal(got, wanted, what):
    assert got.dtype == wanted.dtype and got.shape == wanted.shape, f"{what}: {got.dtype} {got.shape}, not {wanted.dtype} {wanted.shape}"
    if got.dtype.is_complex:
        got, wanted = torch.view_as_real(got), torch.view_as_real(wanted)
    bound = FLOATS.get(got.dtype, 0)
    assert torch.allclose(got.double(), wanted.double(), rtol=bound, atol=bound), f"{what}: {got} instead of {wanted}"


def reduced(inputs, op, before=1.0, after=1.0):
    dtype = inputs[0].dtype
    wide = torch.float64 if dtype.is_floating_point else torch.int64
    stack = torch.stack([(tensor.double() * before).to(dtype).to(wide) if before != 1 else tensor.to(wide) for tensor in inputs])
    if op in (hvd.Sum, hvd.Average):
        result = stack.sum(0)
        if op == hvd.Average:
            result = result / len(inputs) if dtype.is_floating_point else result.div(len(inputs), rounding_mode="trunc")
    else:
        result = {hvd.Min: lambda: stack.amin(0), hvd.Max: lambda: stack.amax(0), hvd.Product: lambda: stack.prod(0)}[op]()
    return result.to(dtype) if after == 1 else (result.to(dtype).double() * after).to(dtype)


def allreduces():
    rank = hvd.rank()
    for dtype in (*FLOATS, *INTEGERS):
        for op in (hvd.Average, hvd.Sum, hvd.Min, hvd.Max, hvd.Product):
            for shape in SHAPES:
                inputs = of_all(shape, dtype)
                mine, wanted, what = inputs[rank].clone(), reduced(inputs, op), f"allreduce {dtype} {op} {shape}"
                equal(hvd.allreduce(mine, op=op), wanted, what)
                equal(hvd.synchronize(hvd.allreduce_async(mine, op=op)), wanted, what + " async")
                assert torch.equal(mine, inputs[rank]), what + " has changed what it was given"
                assert hvd.allreduce_(mine, op=op) is mine, what
                equal(mine, wanted, what + " in place")
                again = inputs[rank].clone()
                assert hvd.synchronize(hvd.allreduce_async_(again, op=op)) is again, what
                equal(again, wanted, what + " async in place")
        for before, after in ((0.5, 1.0), (1.0, 4.0), (2.0, 0.5)):
            inputs = of_all((7,), dtype)
            got = hvd.allreduce(inputs[rank], op=hvd.Sum, prescale_factor=before, postscale_factor=after)
            equal(got, reduced(inputs, hvd.Sum, before, after), f"allreduce {dtype} x {before}, x {after}")
        columns = of_all((4, 6), dtype)
        equal(hvd.allreduce(columns[rank].t(), op=hvd.Sum), reduced(columns, hvd.Sum).t(), f"allreduce {dtype} of columns")
        strided = columns[rank].clone()
        hvd.allreduce_(strided.t(), op=hvd.Sum)
        equal(strided, reduced(columns, hvd.Sum), f"allreduce {dtype} of columns in place")
        hvd.allreduce_(columns[rank].t(), op=hvd.Sum, postscale_factor=2.0)
        equal(columns[rank], reduced(of_all((4, 6), dtype), hvd.Sum, after=2.0), f"allreduce {dtype} of columns in place, x 2")
    bools = of_all((9,), torch.bool)
    assert torch.equal(hvd.allreduce(bools[rank], op=hvd.Max), torch.stack(bools).any(0))
    assert torch.equal(hvd.allreduce(bools[rank], op=hvd.Min), torch.stack(bools).all(0))
    floats = of_all((9,), torch.float32)
    equal(hvd.allreduce(floats[rank], average=False), reduced(floats, hvd.Sum), "average=False")
    equal(hvd.allreduce(floats[rank], average=True), reduced(floats, hvd.Average), "average=True")
    for compression in (hvd.Compression.fp16, hvd.Compression.bf16):
        equal(hvd.allreduce(floats[rank], compression=compression, op=hvd.Sum), reduced(floats, hvd.Sum), "compression")
        whole = of_all((9,), torch.int32)
        equal(hvd.allreduce(whole[rank], compression=compression, op=hvd.Sum), reduced(whole, hvd.Sum), "compression of integers")


def grouped():
    rank = hvd.rank()
    kinds = [(shape, dtype) for dtype in (torch.float32, torch.int64, torch.float16) for shape in SHAPES]
    for op in (hvd.Average, hvd.Sum, hvd.Max):
        inputs = [of_all(shape, dtype, salt) for salt, (shape, dtype) in enumerate(kinds)]
        wanted = [reduced(each, op) for each in inputs]
        mine = [each[rank].clone() for each in inputs]
        results = (hvd.grouped_allreduce(mine, op=op), hvd.synchronize(hvd.grouped_allreduce_async(mine, op=op)))
        assert all(torch.equal(one, each[rank]) for one, each in zip(mine, inputs))
        again = [each[rank].clone() for each in inputs]
        for got in (*results, hvd.grouped_allreduce_(mine, op=op), hvd.synchronize(hvd.grouped_allreduce_async_(again, op=op)), mine, again):
            for one, reference, kind in zip(got, wanted, kinds):
                equal(one, reference, f"grouped_allreduce {op} {kind}")
    inputs = [of_all(shape, dtype, salt) for salt, (shape, dtype) in enumerate(kinds)]
    for got, each, kind in zip(hvd.grouped_allreduce([each[rank] for each in inputs], op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.5),
                               inputs, kinds):
        equal(got, reduced(each, hvd.Sum, 2.0, 0.5), f"grouped_allreduce with factors {kind}")
    inputs = [of_all((8, 3), torch.float32, salt) for salt in range(3)]
    for got, each in zip(hvd.grouped_allgather([each[rank] for each in inputs]), inputs):
        equal(got, torch.cat(each), "grouped_allgather")
    for got, each in zip(hvd.grouped_reducescatter([each[rank] for each in inputs], op=hvd.Sum), inputs):
        equal(got, share(reduced(each, hvd.Sum), hvd.size(), rank), "grouped_reducescatter")


def share(tensor, ranks, rank):
    """Rows of `rank`; the first get one more."""
    rows = [tensor.shape[0] // ranks + (other < tensor.shape[0] % ranks) for other in range(ranks)]
    return tensor.split(rows)[rank]


def moves():
    rank, size = hvd.rank(), hvd.size()
    for dtype in (*FLOATS, *INTEGERS, torch.bool, torch.int16, torch.complex64):
        for rest in ((), (3,), (2, 2)):
            inputs = [made(other, (2 * other + 1, *rest), dtype) for other in range(size)]
            equal(hvd.allgather(inputs[rank]), torch.cat(inputs), f"allgather {dtype}")
            empty = [made(other, (other % 2, *rest), dtype) for other in range(size)]
            equal(hvd.synchronize(hvd.allgather_async(empty[rank])), torch.cat(empty), f"allgather {dtype} of nothing")
            for root in range(size):
                given = made(rank, (5, *rest), dtype)
                equal(hvd.broadcast(given, root), made(root, (5, *rest), dtype), f"broadcast {dtype}")
                assert torch.equal(given, made(rank, (5, *rest), dtype))
                equal(hvd.synchronize(hvd.broadcast_async(given, root)), made(root, (5, *rest), dtype), f"broadcast {dtype} async")
                assert hvd.broadcast_(given, root) is given
                equal(given, made(root, (5, *rest), dtype), f"broadcast {dtype} in place")
            whole = [made(other, (2 * size, *rest), dtype) for other in range(size)]
            equal(hvd.alltoall(whole[rank]), torch.cat([one[2 * rank:2 * rank + 2] for one in whole]), f"alltoall {dtype}")
            # rank i gives i + j rows to rank j
            splits = [[i + j for j in range(size)] for i in range(size)]
            uneven = [made(i, (sum(splits[i]), *rest), dtype) for i in range(size)]
            wanted = torch.cat([one.split(splits[i])[rank] for i, one in enumerate(uneven)])
            for mine in (splits[rank], torch.tensor(splits[rank])):
                got, received = hvd.alltoall(uneven[rank], splits=mine)
                equal(got, wanted, f"alltoall {dtype} with splits")
                assert received.tolist() == [splits[i][rank] for i in range(size)]
    for dtype in (*FLOATS, *INTEGERS):
        for op in (hvd.Sum, hvd.Average):
            for rows in (size, 2 * size + 1, 1, 0):
                inputs = of_all((rows, 3), dtype)
                got = hvd.reducescatter(inputs[rank], op=op)
                equal(got, share(reduced(inputs, op), size, rank), f"reducescatter {dtype} of {rows} rows")
        inputs = of_all((2 * size, 3), dtype)
        got = hvd.reducescatter(inputs[rank], op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.5)
        equal(got, share(reduced(inputs, hvd.Sum, 2.0, 0.5), size, rank), f"reducescatter {dtype} with factors")


def order():
    """What is started first comes first, also before what waits; and a handle can be asked."""
    tensors = [made(hvd.rank(), (1 << 16,), torch.float32, salt) for salt in range(20)]
    handles = [hvd.allreduce_async_(tensor, op=hvd.Sum, name=f"tensor {salt}") for salt, tensor in enumerate(tensors)]
    gathered = hvd.allgather(torch.tensor([hvd.rank()]))  # comes behind them
    assert all(hvd.poll(handle) for handle in handles)
    assert gathered.tolist() == list(range(hvd.size()))
    for salt, handle in enumerate(handles):
        equal(hvd.synchronize(handle), reduced(of_all((1 << 16,), torch.float32, salt), hvd.Sum), "one of many")
    hvd.barrier()


def recent():
    """What was done last is known, also when the world is over."""
    world = _place.world()
    for count in range(1, 101):
        hvd.allreduce(torch.ones(count, dtype=torch.float64))
    known = world.recent()
    assert [one["bytes"] for one in known] == [8 * count for count in range(101 - len(known), 101)] and len(known) == 64
    assert all(one["name"] == "allreduce" and one["state"] == "done" and one["begun"] <= one["ended"] for one in known)
    beside = world.group([0, 1])
    handle = hvd.allreduce_async(torch.ones(3)) if hvd.rank() == 0 else None
    deadline = time.monotonic() + 60
    while hvd.rank() == 0 and world.recent()[-1]["state"] != "runs":  # it waits for rank 1, which waits for this
        assert time.monotonic() < deadline, world.recent()[-1]
    beside.barrier()
    hvd.synchronize(handle or hvd.allreduce_async(torch.ones(3)))
    assert world.recent()[-1]["state"] == "done"


def timeline(folder):
    """From start_timeline() to stop_timeline(); a forked child writes nothing into it."""
    hvd.start_timeline(folder + "/part.json")
    refused(ValueError, "a timeline is being written already", lambda: hvd.start_timeline(folder + "/other.json"))
    hvd.allreduce(torch.ones(2), name="inside")
    child = os.fork()
    if child == 0:
        sys.exit(0)  # with all that Python does at its end
    assert os.waitpid(child, 0)[1] == 0
    hvd.synchronize(hvd.broadcast_async(torch.ones(2), 0, name="later"))
    hvd.stop_timeline()
    hvd.allreduce(torch.ones(2), name="outside")
    with open(folder + ("/part.json" if hvd.rank() == 0 else f"/part.{hvd.rank()}.json"), encoding="utf-8") as file:
        events = json.load(file)
    assert [event["args"]["name"] for event in events if event.get("name") == "process_name"] == ["inside", "later"], events
    assert [event["name"] for event in events if event.get("ph") == "X" and event["pid"] == 2] == ["QUEUE", "BROADCAST", "SHM_BROADCAST"]


def sets():
    rank, size = hvd.rank(), hvd.size()
    even, odd = hvd.ProcessSet(range(0, size, 2)), hvd.add_process_set(range(1, size, 2))
    assert even.process_set_id is None and even.size() is None
    hvd.add_process_set(even)
    mine = even if rank % 2 == 0 else odd
    assert (odd.process_set_id, even.process_set_id, hvd.global_process_set.process_set_id) == (1, 2, 0)
    assert mine.included() and mine.rank() == rank // 2 and mine.size() == len(mine.ranks)
    inputs = of_all((5,), torch.float32, ranks=mine.ranks)
    equal(hvd.allreduce(made(rank, (5,), torch.float32), op=hvd.Average, process_set=mine), reduced(inputs, hvd.Average), "in a set")
    root = mine.ranks[-1]
    equal(hvd.broadcast(made(rank, (5,), torch.float32), root, process_set=mine), inputs[-1], "broadcast in a set")
    equal(hvd.allgather(made(rank, (2,), torch.int64), process_set=mine), torch.cat(of_all((2,), torch.int64, ranks=mine.ranks)), "allgather")
    assert hvd.broadcast_object(rank, root, process_set=mine) == root
    hvd.barrier(process_set=mine)
    other = odd if mine is even else even
    if other.ranks:
        refused(ValueError, f"rank {rank} is not part of the process set of ranks", lambda: hvd.allreduce(torch.ones(1), process_set=other))
    refused(ValueError, "duplicate process set", lambda: hvd.add_process_set(even.ranks))
    refused(ValueError, "is not one of the ranks", lambda: hvd.broadcast(torch.ones(1), size, process_set=mine))
    assert hvd.remove_process_set(odd) and hvd.remove_process_set(even) and not hvd.remove_process_set(hvd.global_process_set)
    refused(ValueError, "try: hvd.add_process_set()", lambda: hvd.allreduce(torch.ones(1), process_set=mine))


def gradients():
    rank, size = hvd.rank(), hvd.size()

    def slope(function, *shape):
        tensor = made(rank, shape, torch.float64).requires_grad_()
        output = function(tensor)
        (output * (rank + 1)).sum().backward()
        return tensor.grad

    total = sum(range(1, size + 1))
    equal(slope(lambda x: hvd.allreduce(x, op=hvd.Sum), 3), torch.full((3,), float(total), dtype=torch.float64), "of a sum")
    equal(slope(lambda x: hvd.allreduce(x), 3), torch.full((3,), total / size, dtype=torch.float64), "of an average")
    grouped = slope(lambda x: hvd.grouped_allreduce([x, 2 * x], op=hvd.Sum)[1], 3)
    equal(grouped, torch.full((3,), 2.0 * total, dtype=torch.float64), "of a group")
    # As Horovod's: the average of what all ranks have for these rows.
    equal(slope(hvd.allgather, rank + 1, 2), torch.full((rank + 1, 2), total / size, dtype=torch.float64), "of an allgather")
    wanted = total / size if rank == 1 else 0.0
    equal(slope(lambda x: hvd.broadcast(x, 1), 3), torch.full((3,), wanted, dtype=torch.float64), "of a broadcast")
    back = torch.arange(1, size + 1, dtype=torch.float64).view(-1, 1).expand(size, 2)
    equal(slope(hvd.alltoall, size, 2), back.contiguous(), "of an alltoall")
    splits = list(range(size))
    equal(slope(lambda x: hvd.alltoall(x, splits)[0], sum(splits)),
          torch.cat([torch.full((n,), n + 1.0, dtype=torch.float64) for n in splits]), "of an alltoall with splits")
    rows = torch.arange(1, size + 1, dtype=torch.float64).view(-1, 1).expand(size, 2).contiguous()
    equal(slope(lambda x: hvd.reducescatter(x, op=hvd.Average), size, 2), rows, "of a reducescatter")
    equal(slope(lambda x: hvd.reducescatter(x, op=hvd.Sum), size, 2), rows * size, "of a reducescatter's sum")


def parameters():
    torch.manual_seed(hvd.rank())

    def model_and_optimizer():
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1 * (hvd.rank() + 1))
        return model, optimizer

    for root in (0, hvd.size() - 1):
        model, optimizer = model_and_optimizer()
        if hvd.rank() == root:  # the others' state is empty
            model(torch.randn(5, 3)).sum().backward()
            optimizer.step()
        hvd.broadcast_parameters(model.state_dict(), root)
        hvd.broadcast_optimizer_state(optimizer, root)
        states = hvd.allgather_object([model.state_dict(), optimizer.state_dict()])
        for state in states:
            assert str(state) == str(states[root])
        assert optimizer.param_groups[0]["lr"] == 0.1 * (root + 1) and len(optimizer.state) == 6
        hvd.broadcast_parameters(list(model.named_parameters()), root)
        hvd.broadcast_parameters(list(model.parameters()), root)
    refused(ValueError, "invalid params of type", lambda: hvd.broadcast_parameters(7, 0))


def sync_batch_norm():
    """As torch's BatchNorm on the batches of all ranks together: outputs, gradients, running numbers."""
    rank, size = hvd.rank(), hvd.size()
    batches = [torch.randn(2 + other, 3, 4, generator=torch.Generator().manual_seed(other), dtype=torch.float64, device="cpu").to(DEVICE) for other in range(size)]
    weights = [torch.randn(2 + other, 3, 4, generator=torch.Generator().manual_seed(99 + other), dtype=torch.float64, device="cpu").to(DEVICE) for other in range(size)]
    one, ours = torch.nn.BatchNorm1d(3).double(), hvd.SyncBatchNorm(3).double()
    whole, mine = torch.cat(batches).requires_grad_(), batches[rank].clone().requires_grad_()
    for _ in range(2):
        wanted, got = one(whole), ours(mine)
        whole.grad = mine.grad = None
        (wanted * torch.cat(weights)).sum().backward()
        (got * weights[rank]).sum().backward()
        rows = [len(batch) for batch in batches]
        equal(got.detach(), wanted.detach().split(rows)[rank], "SyncBatchNorm")
        equal(mine.grad, whole.grad.split(rows)[rank], "its gradient")
        equal(ours.running_mean, one.running_mean, "its running mean")
        equal(ours.running_var, one.running_var, "its running variance")
    equal(hvd.allreduce(ours.weight.grad, op=hvd.Sum), one.weight.grad, "the gradient of its weight")
    ours.eval()
    one.eval()
    equal(ours(mine).detach(), one(mine).detach(), "SyncBatchNorm, evaluated")
    half, single = hvd.SyncBatchNorm(3), torch.nn.BatchNorm1d(3)
    halves = [batch.bfloat16() for batch in batches]
    equal(half(halves[rank]).detach(), single(torch.cat(halves).float()).bfloat16().detach().split(rows)[rank], "SyncBatchNorm of halves")
    equal(half.running_var, single.running_var, "its running variance")
    alone = torch.ones(1 if rank == 0 else 0, 3)
    refused(ValueError, "more than 1 value per channel", lambda: hvd.SyncBatchNorm(3)(alone))


def refusals():
    refused(trainrun.Unsupported, "hvd.Adasum is not in trainrun.torch", lambda: hvd.allreduce(torch.ones(2), op=hvd.Adasum))
    refused(trainrun.Unsupported, "torch.sparse_coo is not in trainrun.torch", lambda: hvd.allreduce(torch.eye(2).to_sparse()))
    refused(trainrun.Unsupported, "cannot reduce torch.int16", lambda: hvd.allreduce(torch.ones(2, dtype=torch.int16)))
    refused(trainrun.Unsupported, "hvd.sparse_allreduce_async is not", lambda: hvd.sparse_allreduce_async(torch.eye(2).to_sparse()))
    refused(ValueError, "The op parameter supersedes average", lambda: hvd.allreduce(torch.ones(2), average=True, op=hvd.Sum))
    refused(ValueError, "is no reduction", lambda: hvd.allreduce(torch.ones(2), op="sum"))
    refused(ValueError, "without dimensions", lambda: hvd.allgather(torch.tensor(1.0)))
    refused(ValueError, "cannot be shared out equally", lambda: hvd.alltoall(torch.ones(hvd.size() + 1)))
    refused(ValueError, "splits [1] of 2 rows", lambda: hvd.alltoall(torch.ones(2), splits=[1]))
    refused(AttributeError, "trainrun.torch has no nonsense", lambda: hvd.nonsense)
    refused(trainrun.Invalid, "hvd.init(comm=...)", lambda: hvd.init(comm=[0]))
    # All ranks hear the same of rows that do not fit; nobody waits.
    refused(ValueError, "only the first dimensions may differ", lambda: hvd.allgather(torch.ones(2, 2 + hvd.rank())))
    answers = [hvd.gloo_built(), hvd.gloo_enabled(), hvd.mpi_built(), hvd.mpi_enabled(), hvd.mpi_threads_supported(), hvd.nccl_built(),
               hvd.ddl_built(), hvd.ccl_built(), hvd.cuda_built(), hvd.rocm_built(), hvd.is_homogeneous()]
    assert answers == [True, True, False, False, False, 0, False, False, False, False, True], answers


def place():
    every = hvd.allgather_object([hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size()])
    assert every == [[rank, hvd.size(), rank, hvd.size(), 0, 1] for rank in range(hvd.size())], every


def sampler():
    one, other = (hvd.elastic.ElasticSampler(range(20), seed=3) for _ in range(2))
    seen = set(one.remaining_indices[:2 * hvd.size()])
    one.record_batch(0, 2)
    assert one.processed_indices == seen and len(seen) == 2 * hvd.size()
    other.load_state_dict(one.state_dict())
    assert other.processed_indices == seen and not seen & set(other.remaining_indices)
    one.set_epoch(1)
    assert one.processed_indices == set()


def default_device():
    """What the library makes for itself is where it must be, whatever device the program has chosen for what it makes."""
    torch.set_default_device("meta")
    rank, size = hvd.rank(), hvd.size()
    cpu = torch.device("cpu")
    assert hvd.allgather_object({"rank": rank}) == [{"rank": other} for other in range(size)]
    assert hvd.broadcast_object("x" * 1000 if rank == 0 else None) == "x" * 1000
    gathered = hvd.allgather(torch.full((rank + 1, 2), float(rank), device=cpu))
    equal(gathered, torch.cat([torch.full((other + 1, 2), float(other), device=cpu) for other in range(size)]), "allgather")
    got, splits = hvd.alltoall(torch.arange(size, device=cpu), [1] * size)
    equal(got, torch.full((size,), rank, device=cpu), "alltoall")
    assert splits.tolist() == [1] * size
    assert hvd.join() in range(size)


def mismatch():
    """Ranks that call different things all hear of it, and of nothing else at the end."""
    refused(trainrun.Mismatch, "called allreduce", lambda: hvd.allreduce(torch.ones(2 + hvd.rank())))


def disagrees_in_place():
    """By a bug: not even an elastic program can go on."""
    hvd.elastic.run(lambda state: hvd.allreduce(torch.ones(2 + hvd.rank())), hvd.elastic.ObjectState(step=0))


def dies():
    """The others are told who."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the launcher ends the others, and they shall say first what they know
    hvd.barrier()
    if hvd.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        hvd.synchronize(hvd.allreduce_async(torch.ones(1 << 20)))
    except hvd.HorovodInternalError as error:
        print(f"rank {hvd.rank()}: lost rank {error.culprit}", flush=True)


def main():
    verb = sys.argv[1]
    refused(ValueError, "has not been initialized; use hvd.init()", hvd.rank)
    assert not hvd.is_initialized()
    hvd.init()
    assert hvd.is_initialized()
    for one in verb.split("+"):
        globals()[one](*sys.argv[2:])
    print(f"rank {hvd.rank()}: {verb} is right over {_place.world().backend}", flush=True)
    hvd.shutdown()
    assert not hvd.is_initialized()


if __name__ == "__main__":
    main()
