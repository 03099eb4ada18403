"""The end of a rank's data before that of the others'."""
import time

import torch

from trainrun import _work
from trainrun.torch import _device
from trainrun.torch.horovod import _place
from trainrun.torch.horovod._autograd import allgather

_groups = []  # of optimizers, in this world


def joins(group):
    """A rank that joins does so in this group too."""
    _groups.append(group)


@_place.on_world
def _renew(_):
    _groups.clear()


def join(device=-1):
    """This rank has no more data: until all ranks have called it, it takes part in the others' allreduces and barriers with
    zeros, and in the steps of optimizers. Other operations fail meanwhile. Returns the rank that was the last."""
    for group in (_place.world(), *_groups):
        _device.must_not_be_used(group, "hvd.join()")
    world, now = _place.world(), torch.tensor([time.time()], dtype=torch.float64, device="cpu")
    for work in [_work.Started(group._group, [_work.call(_work.JOIN)]) for group in (world, *_groups)]:
        work.wait()
    return int(allgather(now).argmax())
