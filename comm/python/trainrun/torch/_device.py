"""Operations on tensors of GPUs: groups over NCCL (trainrun.nccl), made by the first operation that needs one, each with a stream
of its own. An operation begins there when what the program's stream holds is done, and goes on beside what the program enqueues
until it waits for it. Nothing here looks at what ranks call: that would cost more than the operation.
"""
import atexit
import concurrent.futures
import contextlib
import functools
import queue
import sys
import threading
import weakref

import torch

from trainrun import _work, nccl
from trainrun._library import Error, Invalid
from trainrun.torch._foreign import unsupported


class Cuda:
    """What is needed of torch.cuda. Another one is put in its place by tests, on machines without a GPU."""

    kind = "cuda"

    def use(self, device):
        """In a thread of its own, which would be on the first device else, and open it."""
        torch.cuda.set_device(device)

    def must_not_capture(self):
        if torch.cuda.is_current_stream_capturing():
            raise unsupported("operations of trainrun cannot be captured in a CUDA graph: call them between graphs")

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

    def new_future(self, device):
        """What enqueue() lets end has who takes its value come behind what is enqueued there."""
        return torch.futures.Future(devices=[device])


cuda = Cuda()


_lanes = weakref.WeakSet()


@atexit.register
def _tell_what_nobody_has_heard():
    """A program that waited for its GPU alone may have used what was never carried out to the end."""
    for lane in list(_lanes):
        error = lane.last.error() if lane.last is not None and not lane.told else None
        if error is not None and not isinstance(error, Invalid):  # that is one of a world which is over
            print(f"trainrun.torch: an operation on {lane.device} was not carried out to the end, and what it should have filled may "
                  f"hold anything: {error}", file=sys.stderr, flush=True)


class Lane:
    """A communicator, and the stream on which its operations are, one after another."""

    def __init__(self, device, make):
        self.device, self.stream = device, cuda.new_stream(device)
        self.group = make(device=device.index or 0, stream=self.stream)
        self.last, self.told = None, False  # what was enqueued last; an error of it, to somebody
        _lanes.add(self)

    def run(self, plan):
        """Its calls are enqueued."""
        with self.telling():
            _work.run(self.group._group(), plan.calls)

    @contextlib.contextmanager
    def telling(self):
        try:
            yield
        except Error:
            self.told = True
            raise


class Enqueued:
    """A plan that is being carried out on a lane."""

    def __init__(self, lane, plan, before=None):
        self.lane = lane
        cuda.follow(lane.stream, cuda.mark_own(lane.device) if before is None else before, plan.keep)
        lane.run(plan)
        if plan.has_more():
            cuda.enqueue(lane.stream, plan.finish)
        self._event = cuda.mark(lane.stream)
        lane.last = self

    def ended(self):
        return cuda.happened(self._event)

    def error(self):
        """Why it was not carried out to the end, once it has ended."""
        if not self.ended():
            return None
        try:
            self.wait()
        except Error as error:
            return error
        return None

    def hold(self):
        """The program's stream waits; this thread does not."""
        cuda.hold(self.lane.device, self._event)

    def wait(self):
        """Until it is done. Raises what has become of it."""
        with self.lane.telling():
            self.lane.group.wait(self._event)

    def then(self, step):
        step(self.lane, None)


class Way:
    """A lane that a thread makes when it is needed, since that waits for the other ranks, which may do something else first; what one
    rank gives to another waits, too, until that takes it. Once there is nothing to wait for, `start` enqueues by itself."""

    def __init__(self, device, make, alone):
        """`alone`: enqueuing never waits for another rank."""
        self._device, self._make, self.alone = device, make, alone
        self._lock, self._plans, self._waiting = threading.Lock(), queue.SimpleQueue(), 0
        self._error, self.lane, self._thread = None, None, None

    def start(self, plan):
        with self._lock:
            if self.lane is not None and self.alone and self._waiting == 0:
                return Enqueued(self.lane, plan)
            handed = Handed(self._device, plan)
            self._waiting += 1
            self._plans.put(handed)
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="trainrun-way", daemon=True)
                self._thread.start()
            return handed

    def open(self):
        """The lane, made now."""
        with self._lock:
            if self.lane is None:
                self.lane = Lane(self._device, self._make)
            return self.lane

    def end(self):
        """Its thread is not needed any more; another operation brings another one."""
        with self._lock:
            if self._thread is not None:
                self._thread = None
                self._plans.put(None)

    def _serve(self):
        cuda.use(self._device)
        while (handed := self._plans.get()) is not None:
            enqueued, error = None, self._error
            try:
                if error is None:
                    if self.lane is None:
                        self.lane = Lane(self._device, self._make)
                    enqueued = Enqueued(self.lane, handed.plan, handed.before)
            except Exception as raised:
                error = raised
                if self.lane is None:
                    self._error = error  # of all that comes later, too
            with self._lock:
                self._waiting -= 1
                over = self._waiting == 0 and self.alone and self.lane is not None
                if over:
                    self._thread = None
            handed.settle(enqueued, error)
            if over:
                return
            del handed, enqueued


class Handed:
    """As Enqueued, of what a thread is to enqueue."""

    def __init__(self, device, plan):
        self.plan, self.before, self._enqueued = plan, cuda.mark_own(device), concurrent.futures.Future()

    def settle(self, enqueued, error):
        self.plan = None  # its tensors are the stream's now
        if enqueued is None:
            self._enqueued.set_exception(error)
        else:
            self._enqueued.set_result(enqueued)

    def ended(self):
        return self._enqueued.done() and (self._enqueued.exception() is not None or self._enqueued.result().ended())

    def error(self):
        if not self._enqueued.done():
            return None
        return self._enqueued.exception() or self._enqueued.result().error()

    def hold(self):
        self._enqueued.result().hold()

    def wait(self):
        self._enqueued.result().wait()

    def then(self, step):
        """step(lane, error) once it is enqueued, on whichever thread."""
        def settled(future):
            error = future.exception()
            step(None if error else future.result().lane, error)
        self._enqueued.add_done_callback(settled)


class Devices:
    """The ways of a trainrun.World or one of its groups."""

    def __init__(self, group):
        self._group, self._ways = weakref.proxy(group), {}

    def used(self):
        return bool(self._ways)

    def _way(self, device, giver=0, taker=0):
        key = device, giver, taker
        if key not in self._ways:
            make = functools.partial(nccl.beside, self._group, giver, taker)
            self._ways[key] = Way(device, make, giver == taker)
        return self._ways[key]

    def start(self, plan):
        """What all of them do."""
        cuda.must_not_capture()
        return self._way(plan.device).start(plan)

    def hand_over(self, plan, giver, taker):
        """What one of them, by its number in the group, gives to another: each way has a lane, so that both may send before they
        receive."""
        cuda.must_not_capture()
        return self._way(plan.device, giver, taker).start(plan)

    def open(self, device):
        """All of the ranks call it."""
        self._way(device).open()

    def end(self):
        """No thread waits for more; lanes stay until their world ends, since others may still use them."""
        for way in self._ways.values():
            way.end()

    def free(self):
        """All of the ranks call it."""
        for way in self._ways.values():
            way.end()
            if way.lane is not None and way.alone:
                way.lane.group.free()
        self._ways = {}

    def settle(self):
        """Waits until all is done that is enqueued by all ranks together, also by the program on its own streams."""
        for way in self._ways.values():
            if way.lane is not None and way.alone:
                cuda.follow(way.lane.stream, cuda.mark_own(way.lane.device), ())
                way.lane.group.wait(cuda.mark(way.lane.stream))


def is_on_device(tensor):
    return tensor.device.type == cuda.kind


def devices_of(group):
    """Of a trainrun.World or one of its groups; they are there as long as it is."""
    if group._devices is None:
        group._devices = Devices(group)
    return group._devices


def must_not_be_used(group, what):
    if group._devices is not None and group._devices.used():
        raise unsupported(f"{what} is not for tensors of GPUs, which this group has reduced")
