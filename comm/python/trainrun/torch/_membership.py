"""This process's membership in the job, and torch's default process group in each of its worlds.

A world is met as every program on comm meets it: the launcher gives rank and generation, and says who was lost. Then
torch's group is formed of the same ranks. It stays the same object in the same process: _reconfigure gives it new
connections.
"""
import array
import atexit
import ctypes
import os
import re
import sys
from datetime import timedelta

import torch.distributed as dist

from trainrun import _library
from trainrun._library import OK, Error, check, invalid, lib
from trainrun._world import World
from trainrun.torch import _foreign, _probe, _sockets
from trainrun.torch._store import Store
from trainrun.torch._wire import exchange

# Seconds that Gloo may take for the connections of torch's group, once all ranks have met, one attempt after another. It takes five
# times as long where nobody answers, and cannot be interrupted when a rank dies just then; so the first ones are short.
CONNECT = (0.2, 0.6, 2.0, 6.0)

# What torch says when a peer is gone, or does not answer, names a file of Gloo's. A RuntimeError that does not is the
# program's own.
GONE = re.compile(r"/gloo/|\bGloo\b")
LATE = re.compile(r"timed? ?out", re.IGNORECASE)


class Membership:
    def __init__(self, backend, op_timeout, init_timeout):
        _probe.require(backend)
        if dist.is_initialized():
            raise invalid("torch.distributed has a process group already: init() of trainrun.torch.elastic makes it, instead of "
                          "dist.init_process_group()")
        self._backend, self._op_timeout = backend, op_timeout
        self._listens = []
        self._elastic, self._progress = ctypes.c_void_p(), ctypes.c_void_p()
        self.world = None
        plain = _library.options(op_timeout, init_timeout)
        check(lib.trc_elastic_new(ctypes.byref(plain), ctypes.byref(self._elastic)))
        check(lib.trc_state_new(ctypes.byref(self._progress)))  # empty: it counts failures without progress in between

    def form(self, ended=OK):
        """The world to work in, with torch's group in it, after the last one has ended so."""
        while True:
            handle = ctypes.c_void_p()
            if self.world is not None:
                self.world._retire()
            check(lib.trc_elastic_form(self._elastic, self._progress, ended, ctypes.byref(handle)))
            self.world = World(handle, owned=False)
            try:
                self._connect()
                return self.world
            except Error as error:
                if not self.goes_on(error):
                    raise
                ended = error.status

    @staticmethod
    def goes_on(failure):
        """Whether there is a next world after it: only elastic jobs have one."""
        return "TRAINRUN_ELASTIC_TIMEOUT" in os.environ and bool(lib.trc_elastic_goes_on(failure.status))

    def _connect(self):
        world = self.world
        check(lib.trc_foreign_steps(world._alive(), 0))
        if not dist.is_initialized():
            self._begin()
        host = os.environ.get("TRAINRUN_ADDRESS", "")
        mine = {"handle": dist._get_reconfigure_handle(), "listens": [_sockets.reachable(name, host) for name in self._listens]}
        every = exchange(world, mine)
        peers = [name for rank, one in enumerate(every) if rank != world.rank for name in one["listens"]]
        _foreign.sockets(world._alive(), self._listens, peers)
        handles, connected = [one["handle"] for one in every], array.array("B", [0])
        for attempt, seconds in enumerate(CONNECT):
            try:
                dist._reconfigure(uuid=world.generation * len(CONNECT) + attempt, handles=handles, timeout=timedelta(seconds=seconds)).wait()
                failure, connected[0] = None, 1
            except RuntimeError as error:
                failure, connected[0] = error, 0
            # Who has no connection may yet be waited for; who has died ends this at once.
            if world.allreduce(connected, "min")[0]:
                return
        raise self.why(failure or RuntimeError("another rank could not connect"), "connecting the ranks of torch's group", True) from None

    def _begin(self):
        """torch's group, without connections so far."""
        before = _sockets.listeners()
        # In the first world, and until it has met the others, a rank must be nobody else's: the number of the process.
        rank = int(os.environ.get("TRAINRUN_WORKER", "0"))
        # torch asks it in later worlds too, and does not keep what is written in Python alive.
        self._store = Store(lambda: self.world._alive()) if "TRAINRUN_RENDEZVOUS" in os.environ else dist.HashStore()
        timeout = timedelta(seconds=self._op_timeout) if self._op_timeout else None
        hook = sys.excepthook
        dist.init_process_group(self._backend, store=self._store, rank=rank, world_size=self.world.size, timeout=timeout,
                                enable_reconfigure=True)
        sys.excepthook = hook  # torch's would put this number before each line of an exception, as if it were the rank
        if not dist._supports_reconfigure():
            raise _foreign.unsupported(f"the backend {self._backend!r} of this torch cannot form a group anew; {_probe.INSTEAD}")
        self._listens = sorted(_sockets.listeners() - before)
        dist.distributed_c10d._new_process_group_helper = _refuse_group  # through which torch makes each other one
        if self.world.rank == 0:
            _probe.warn_if_untried()
        atexit.register(_end_torch)

    def why(self, error, operation="an operation of torch", of_group=False):
        """The failure of the world that `error` of torch comes from; `error` itself if it is the program's own."""
        ended = _foreign.over(self.world._alive())
        if ended is not None:
            return ended
        text = str(error)
        if not of_group and not isinstance(error, dist.DistError) and not GONE.search(text):
            return error
        return _foreign.failed(self.world._alive(), operation, text.strip().partition("\n")[0], bool(LATE.search(text)))

    def refuse_other_groups(self):
        count = len(dist.distributed_c10d._world.pg_map)
        if count > 1:
            more = "another process group" if count == 2 else f"{count - 1} process groups"
            raise _foreign.unsupported(f"the program has {more} besides the default one (new_group, DeviceMesh, FSDP or tensor "
                                       f"parallelism make them), which cannot be formed anew in place; {_probe.INSTEAD}")

    def progressed(self, steps):
        self.refuse_other_groups()  # at the first step, not at the end
        lib.trc_state_save(self._progress)
        check(lib.trc_foreign_steps(self.world._alive(), steps))

    def pause(self, on):
        check(lib.trc_foreign_pause(self.world._alive(), on))

    def finish(self):
        """The orderly end, together with all other ranks."""
        check(lib.trc_elastic_finish(self._elastic))


def _refuse_group(*_args, **_kwargs):
    raise _foreign.unsupported("a process group besides the default one (new_group, DeviceMesh, FSDP or tensor parallelism make "
                               f"them) cannot be formed anew in place; {_probe.INSTEAD}")


def _end_torch():
    if dist.is_initialized():
        dist.destroy_process_group()
