"""The first operation on a device fails where its lane is made: whoever waits hears of it, torch's C++ as well."""
import torch
import torch.distributed as dist

import trainrun.torch
from trainrun._library import timed_out
from trainrun.torch import _device


def broken(*_, **__):
    raise timed_out("no lane for this one")


def refused(function):
    try:
        function()
    except RuntimeError as error:
        assert "no lane for this one" in str(error), error
        return
    raise AssertionError("nothing was raised")


dist.init_process_group("trainrun")
_device.nccl.beside = broken
future = dist.all_reduce(torch.ones(3), async_op=True).get_future()
refused(future.wait)
refused(future.then(lambda done: done.value()).wait)
replica = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2), init_sync=False)
refused(lambda: replica(torch.ones(1, 2)).sum().backward())
assert "no lane for this one" in str(trainrun.torch.failure())
print("the failure was told", flush=True)
