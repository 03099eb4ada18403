"""The end of a rank's data before that of the others'."""
import time
import weakref

import torch

from trainrun import _work
from trainrun.torch import _device
from trainrun.torch.horovod import _place
from trainrun.torch.horovod._autograd import allgather

_groups = []  # of optimizers, in this world, in the order in which their ranks made them: (ranks, group, its optimizer)


def joins(ranks, group, optimizer):
    """A rank that joins does so in this group too."""
    _groups.append((ranks, group, weakref.ref(optimizer)))


def unused(ranks):
    """The groups of these ranks whose optimizers are gone, by their numbers among those: the same for all of the ranks."""
    return [number for number, (_, _, optimizer) in enumerate(_of(ranks)) if optimizer() is None]


def leave(ranks, numbers):
    """Those that are unused on all of their ranks, which all call this."""
    for number, it in enumerate(_of(ranks)):
        if number in numbers:
            _groups.remove(it)
            it[1].leave()


def _of(ranks):
    return [it for it in _groups if it[0] == ranks]


@_place.on_world
def _renew(_):
    _groups.clear()


def join(device=-1):
    """This rank has no more data: until all ranks have called it, it takes part in the others' allreduces and barriers with
    zeros, and in the steps of optimizers. Other operations fail meanwhile. Returns the rank that was the last."""
    groups = [_place.world(), *(group for _, group, _ in _groups)]
    for group in groups:
        _device.must_not_be_used(group, "hvd.join()")
    now = torch.tensor([time.time()], dtype=torch.float64, device="cpu")
    for work in [_work.Started(group._group, [_work.call(_work.JOIN)]) for group in groups]:
        work.wait()
    return int(allgather(now).argmax())
