"""Operations on tensors of GPUs: groups over NCCL (trainrun.nccl), made by the first operation that needs one, each with a stream
of its own. An operation begins there when what the program's stream holds is done, and goes on beside what the program enqueues
until it waits for it. Nothing here looks at what ranks call: that would cost more than the operation.
"""
import concurrent.futures
import functools
import queue
import threading

import torch

from trainrun import _work, nccl
from trainrun.torch._foreign import unsupported


class Cuda:
    """What is needed of torch.cuda. Another one is put in its place by tests, on machines without a GPU."""

    kind = "cuda"

    def new_stream(self, device):
        return torch.cuda.Stream(device)

    def mark_own(self, device):
        """An event behind what the program has enqueued on its stream."""
        return torch.cuda.current_stream(device).record_event()

    def follow(self, stream, event, tensors):
        """What is enqueued there from now on comes behind the event, and memory of the tensors is not given to others before it is
        done."""
        stream.wait_event(event)
        for tensor in tensors:
            tensor.record_stream(stream)

    def enqueue(self, stream, step):
        with torch.cuda.stream(stream):
            step()

    def mark(self, stream):
        """An event behind what is enqueued there."""
        return stream.record_event()

    def happened(self, event):
        return event.query()

    def hold(self, device, event):
        """What the program enqueues from now on comes behind it."""
        torch.cuda.current_stream(device).wait_event(event)

    def future(self, device, stream, value):
        """One that has ended: who takes its value has what is enqueued on the stream before that."""
        future = torch.futures.Future(devices=[device])
        with torch.cuda.stream(stream):
            future.set_result(value)
        return future


cuda = Cuda()


class Lane:
    """A communicator, and the stream on which its operations are, one after another."""

    def __init__(self, device, make):
        self.device, self.stream = device, cuda.new_stream(device)
        self.group = make(device=device.index or 0, stream=self.stream)

    def run(self, plan):
        """Its calls are enqueued."""
        _work.run(self.group._group(), plan.calls)


class Enqueued:
    """A plan that is being carried out on a lane."""

    def __init__(self, lane, plan, before=None):
        self.lane = lane
        cuda.follow(lane.stream, cuda.mark_own(lane.device) if before is None else before, plan.keep)
        lane.run(plan)
        cuda.enqueue(lane.stream, plan.finish)
        self._event = cuda.mark(lane.stream)

    def ended(self):
        return cuda.happened(self._event)

    def error(self):
        """Why it could not be enqueued."""
        return None

    def hold(self):
        """The program's stream waits; this thread does not."""
        cuda.hold(self.lane.device, self._event)

    def wait(self):
        """Until it is done. Raises what has become of it."""
        self.lane.group.wait(self._event)


class Way:
    """From one rank to another. A thread makes its lane and enqueues on it, since both wait for the other rank, and who sends must be
    free to receive meanwhile: ranks that each send to the next one would wait for each other in a circle."""

    def __init__(self, device, make):
        self._plans = queue.SimpleQueue()
        threading.Thread(target=self._serve, args=(device, make), name="trainrun-way", daemon=True).start()

    def add(self, handed):
        self._plans.put(handed)

    def _serve(self, device, make):
        lane, error = None, None
        while (handed := self._plans.get()) is not None:
            try:
                if error is None:
                    lane = lane or Lane(device, make)
                    handed.enqueued.set_result(Enqueued(lane, handed.plan, handed.before))
            except Exception as raised:  # it is the answer to all that comes later, too
                error = raised
            if error is not None:
                handed.enqueued.set_exception(error)
            del handed


class Handed:
    """As Enqueued, of what goes from one rank to another."""

    def __init__(self, way, device, plan):
        self.plan, self.before, self.enqueued = plan, cuda.mark_own(device), concurrent.futures.Future()
        way.add(self)

    @property
    def lane(self):
        return self.enqueued.result().lane

    def ended(self):
        return self.enqueued.done() and (self.error() is not None or self.enqueued.result().ended())

    def error(self):
        return self.enqueued.exception() if self.enqueued.done() else None

    def hold(self):
        self.enqueued.result().hold()

    def wait(self):
        self.enqueued.result().wait()


class Devices:
    """The lanes of a group of ranks of a world."""

    def __init__(self, world, ranks):
        self._world, self._ranks = world, list(ranks)
        self._lanes, self._ways = {}, {}

    def used(self):
        return bool(self._lanes)

    def lane(self, device):
        """For what all of them do."""
        if device not in self._lanes:
            self._lanes[device] = Lane(device, functools.partial(nccl.group, self._world, self._ranks))
        return self._lanes[device]

    def hand_over(self, plan, giver, taker):
        """What one of them, by its number in the group, gives to another."""
        key = plan.device, giver, taker
        if key not in self._ways:
            make = functools.partial(nccl.pair, self._world, self._ranks[giver], self._ranks[taker])
            self._ways[key] = Way(plan.device, make)
        return Handed(self._ways[key], plan.device, plan)

    def free(self):
        """All of the ranks call it."""
        for lane in self._lanes.values():
            lane.group.free()
        self._lanes = {}

    def settle(self):
        """Waits until all is done that is enqueued, also by the program on its own streams."""
        for lane in self._lanes.values():
            cuda.follow(lane.stream, cuda.mark_own(lane.device), ())
            lane.group.wait(cuda.mark(lane.stream))


def is_on_device(tensor):
    return tensor.device.type == cuda.kind


def devices_of(group):
    """Of a trainrun.World or one of its groups; they are there as long as it is."""
    if group._devices is None:
        group._devices = Devices(group._world or group, group._ranks)
    return group._devices


def must_not_be_used(group, what):
    if group._devices is not None and group._devices.used():
        raise unsupported(f"{what} is not for tensors of GPUs, which this group has reduced")
