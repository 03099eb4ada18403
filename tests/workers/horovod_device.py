"""Horovod's API on tensors of a device. horovod_device.py VERB"""
import os
import signal
import sys

import torch
import trainrun
import trainrun.torch as hvd


def join():
    hvd.allreduce(torch.ones(3))
    try:
        hvd.join()
    except trainrun.Unsupported as error:
        print(error, flush=True)


def orders():
    """Ranks that use sets, and optimizers, for the first time in different orders; one gives no gradient to an optimizer."""
    mine = hvd.add_process_set([0, 1])
    first, second = ((hvd.global_process_set, mine) if hvd.rank() == 0 else (mine, hvd.global_process_set))
    handles = {of: hvd.allreduce_async(torch.full((2,), 1.0 + hvd.rank()), op=hvd.Sum, process_set=of)
               for of in (first, second) if of.included()}
    for of, handle in handles.items():
        assert hvd.synchronize(handle).tolist() == [sum(1.0 + rank for rank in of.ranks)] * 2
    parameters = [torch.nn.Parameter(torch.zeros(4)) for _ in range(2)]
    optimizers = [hvd.DistributedOptimizer(torch.optim.SGD([one], lr=1.0), [(str(i), one)], op=hvd.Sum) for i, one in enumerate(parameters)]
    if hvd.rank() == 0:
        (parameters[0] * 1.0).sum().backward()
    (parameters[1] * 1000.0).sum().backward()
    if hvd.rank() == 1:
        loss = hvd.allreduce_async(torch.ones(1), op=hvd.Sum, name="loss")
    for optimizer in optimizers:
        optimizer.step()
    if hvd.rank() != 1:
        loss = hvd.allreduce_async(torch.ones(1), op=hvd.Sum, name="loss")
    assert hvd.synchronize(loss).item() == hvd.size()
    assert parameters[0].tolist() == [-1.0] * 4 and parameters[1].tolist() == [-1000.0 * hvd.size()] * 4, parameters
    print(f"rank {hvd.rank()}: orders are right", flush=True)


def types():
    """What NCCL has not, or not so."""
    for dtype, values in ((torch.uint8, [200, 7]), (torch.int8, [100, -100]), (torch.int32, [1 << 30, -5]), (torch.bool, [True, False])):
        given = torch.tensor(values).to(dtype)
        got = hvd.allreduce(given, op=hvd.Max if dtype == torch.bool else hvd.Average)
        assert torch.equal(got, given), (dtype, got)
    half = lambda value: torch.tensor([value], dtype=torch.float16)
    assert hvd.allreduce(half(60000.0), op=hvd.Sum, postscale_factor=1 / hvd.size()).item() == half(60000.0).item()
    tiny = hvd.allreduce(half(1e-4), op=hvd.Sum, prescale_factor=1e-4, postscale_factor=1e4)
    assert torch.allclose(tiny, half(1e-4 * hvd.size()), rtol=1e-2), tiny
    whole = torch.tensor([1 + 2j, 3j])
    assert torch.allclose(hvd.allreduce(whole, op=hvd.Average, postscale_factor=2.0), 2 * whole)
    print(f"rank {hvd.rank()}: types are right", flush=True)


def dies():
    """What was reduced before the death is right; what came later is told, and not given out."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the launcher's: first say what was heard
    try:
        for step in range(1_000_000):
            if hvd.rank() == 1 and step == 5:
                os.kill(os.getpid(), signal.SIGKILL)
            handle = hvd.allreduce_async(torch.ones(1000), op=hvd.Sum)
            got = hvd.synchronize(handle)
            assert torch.equal(got, torch.full((1000,), float(hvd.size()))), got
    except trainrun.PeerLost as error:
        print(f"rank {hvd.rank()}: lost rank {error.culprit} on {error.host}", flush=True)
        os._exit(3)


hvd.init()
globals()[sys.argv[1]]()
