"""The world of this process, and its place in it: init, shutdown, rank, size and their like."""
import os
from dataclasses import dataclass

import trainrun
from trainrun._library import Error, invalid

NOT_YET = "trainrun.torch has not been initialized; use hvd.init()."


@dataclass
class Place:
    rank: int
    size: int
    local_rank: int
    local_size: int
    cross_rank: int
    cross_size: int
    homogeneous: bool = True


_place = None
_world = None
_kept = None  # after shutdown(): the ranks have met once, and meet again in it
_entered = []  # functions that are called with each new world


def on_world(function):
    _entered.append(function)
    return function


def elastic_job():
    """Whether the launcher would form another world when a rank dies."""
    return "TRAINRUN_ELASTIC_TIMEOUT" in os.environ


def init(comm=None, process_sets=None):
    """Meets the other ranks. In an elastic job they meet when the first operation is called, or in hvd.elastic.run: which of
    the two comes first decides whether the process outlives others."""
    global _place
    if comm:
        raise invalid("hvd.init(comm=...) with some of the ranks, or a communicator of MPI, is not in trainrun.torch: all ranks of the "
                      "job take part; try: hvd.ProcessSet")
    if _place is None:
        if elastic_job() and _from_environment() is not None:
            _place = _from_environment()
        else:
            enter(_met())
    from trainrun.torch.horovod import _sets
    _sets.add_all([] if process_sets is None or isinstance(process_sets, str) else process_sets)


def _met():
    global _kept
    from trainrun.torch import _register  # which needs this module
    known, _kept = _kept or _register.world(), None
    return trainrun.init() if known is None else known


def _from_environment():
    """Where the launcher says that this process is; None: it does not."""
    names = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE")
    numbers = [os.environ.get("TRAINRUN_" + name, "") for name in names]
    return Place(*map(int, numbers)) if all(number.isdigit() for number in numbers) else None


def enter(world):
    """This world is the one from now on."""
    global _place, _world
    hosts = [world.host(rank) for rank in range(world.size)]
    sizes = {host: hosts.count(host) for host in hosts}
    beside = [host for host, ranks in sizes.items() if ranks > world.local_rank]  # in the order of their first ranks
    _world = world
    _place = Place(world.rank, world.size, world.local_rank, world.local_size, beside.index(hosts[world.rank]), len(beside),
                   len(set(sizes.values())) == 1)
    for function in _entered:
        function(world)


def leave():
    """The last world is over, and the next one is not here yet."""
    global _world
    _world = None


def world():
    """The world, whose ranks meet now if they have not."""
    place()
    if _world is None:
        enter(_met())
    return _world


def met():
    """The world if its ranks have met, else None."""
    return _world


def place():
    if _place is None:
        raise ValueError(NOT_YET)
    return _place


def shutdown():
    """Waits for all ranks to call it; hvd.init() may come again. The world itself ends with the process."""
    global _place, _world, _kept
    ending, _world, _place = _world, None, None
    if ending is None:
        return
    try:
        ending.barrier()
        _kept = ending
    except Error:
        pass  # it is over in any case: whoever waits in an operation is told, and of this rank nothing was asked any more


def is_initialized():
    return _place is not None


def rank():
    return place().rank


def size():
    return place().size


def local_rank():
    return place().local_rank


def local_size():
    return place().local_size


def cross_rank():
    """Which host this is, among those that have a rank of this local rank."""
    return place().cross_rank


def cross_size():
    return place().cross_size


def is_homogeneous():
    """Whether all hosts have as many ranks."""
    return place().homogeneous
