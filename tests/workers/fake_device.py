"""Runs another of these programs as if its tensors were on a GPU: they stay in the host's memory, and go through libnccl_fake,
which is no NCCL and has no GPU. So this shows that operations are enqueued, waited for and named rightly, and nothing about CUDA.
fake_device.py PROGRAM [ARGUMENT...]; the fake is TRAINRUN_NCCL_LIB and TRAINRUN_CUDA_LIB. Without these, for a torch that comes with
NCCL and would not let a fake in its place, a group of the host's memory does each operation at once."""
import ctypes
import itertools
import os
import runpy
import sys

import torch
from trainrun import _work
from trainrun.torch import _device

FAKE = ctypes.CDLL(os.environ["TRAINRUN_CUDA_LIB"]) if "TRAINRUN_CUDA_LIB" in os.environ else None


class Event:
    def __init__(self, stream):
        self._event = ctypes.c_void_p()
        FAKE.cuEventCreate(ctypes.byref(self._event), 0)
        FAKE.cuEventRecord(self._event, ctypes.c_void_p(stream))

    @property
    def cuda_event(self):
        return self._event.value

    def query(self):
        return FAKE.cuEventQuery(self._event) == 0

    def wait(self):
        FAKE.cuStreamWaitEvent(None, self._event, 0)

    def __del__(self):
        FAKE.cuEventDestroy_v2(self._event)


class FakeCuda:
    """A program's own stream does all at once, so whoever follows it need not wait."""

    kind = "cpu"
    numbers = itertools.count(1)

    def new_stream(self, device):
        assert device.type == "cpu", device
        return next(self.numbers)

    def mark_own(self, device):
        return None

    def follow(self, stream, event, tensors):
        assert all(isinstance(tensor, torch.Tensor) for tensor in tensors)

    def enqueue(self, stream, step):
        Event(stream).wait()
        step()

    def mark(self, stream):
        return Event(stream)

    def happened(self, event):
        return event.query()

    def hold(self, device, event):
        event.wait()

    def new_future(self, device):
        return torch.futures.Future()

    def use(self, device):
        """There is one."""

    def must_not_capture(self):
        """Nothing can be."""


class Done:
    """An event of what is done at once."""

    def query(self):
        return True

    def wait(self):
        """It has happened."""


class HostGroup:
    """As trainrun.nccl's, of the host's memory."""

    def __init__(self, members, both=None):
        self._members, self.both = members, both

    def _group(self):
        return self._members._group

    def wait(self, _event):
        """It is done."""

    def free(self):
        """The group is the program's."""


def beside(of, giver=0, taker=0, **_):
    """The group itself, which has one for each way, and other numbers for the two."""
    return HostGroup(of, sorted((giver, taker)) if giver != taker else None)


sent = []


def run(lane, plan):
    """As with NCCL, a send does not wait for who receives it."""
    for call in plan.calls if lane.group.both else ():
        call.root = lane.group.both[call.root]
    if plan.calls[0].kind == _work.SEND:
        sent.append(_work.Started(lane.group._group(), plan.calls, plan))
    else:
        _work.run(lane.group._group(), plan.calls)


if __name__ == "__main__":
    _device.cuda = FakeCuda()
    if FAKE is None:
        Event = lambda _: Done()
        _device.nccl.beside = beside
        _device.Lane.run = run
    sys.argv.pop(0)
    sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[0])))
    runpy.run_path(sys.argv[0], run_name="__main__")
