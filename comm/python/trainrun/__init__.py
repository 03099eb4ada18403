"""Collective operations among the ranks of a job that trainrun started: libtrainrun_comm for Python.

    import trainrun
    world = trainrun.init()
    world.allreduce(gradients, "mean")     # in place; any writable buffer of numbers: numpy, array, memoryview
    world.shutdown()

Failures are exceptions, one type for each kind, as in the C and C++ interfaces. trainrun.elastic is for programs
that go on when ranks die or hosts come and go. Nothing is pickled, ever.
"""
from trainrun._library import (Aborted, Device, Error, HostsUpdated, Invalid, Mismatch, PeerLost, Removed,
                               RestartRequired, Timeout, Transport, Unsupported)
from trainrun._world import World, init

__all__ = ["Aborted", "Device", "Error", "HostsUpdated", "Invalid", "Mismatch", "PeerLost", "Removed", "RestartRequired",
           "Timeout", "Transport", "Unsupported", "World", "init"]

for _type in (Aborted, Device, Error, HostsUpdated, Invalid, Mismatch, PeerLost, Removed, RestartRequired, Timeout, Transport,
              Unsupported):
    _type.__module__ = __name__  # a traceback names them as the program does
