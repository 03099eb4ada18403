"""torch.distributed's backend "trainrun": which torch can have it, and the group of ranks for each process group."""
import inspect

import torch
import torch.distributed as dist

import trainrun
from trainrun._library import invalid
from trainrun.torch import _foreign
from trainrun.torch._foreign import unsupported
from trainrun.torch.horovod import _place

_world = None
_wrapped = []  # what torch's wrapper for TORCH_DISTRIBUTED_DEBUG=DETAIL holds in C++ alone: their Python would go


def world():
    """That of init_process_group("trainrun"); None if there is none."""
    return _world


def _require():
    """By what it must have, not by its number."""
    from torch._C import _distributed_c10d as parts
    lacking = next((name for name in ("Backend", "Work", "_DistributedBackendOptions") if not hasattr(parts, name)), None)
    if lacking is None:
        try:  # before it, only C++ could be a backend
            parts.Backend(0, 1)
        except TypeError:
            lacking = "Backend for subclasses in Python"
    if lacking is not None:
        raise unsupported(f"torch {torch.__version__} cannot have the backend trainrun: it has no torch._C._distributed_c10d.{lacking}; "
                          "tested with 2.15; try: init_process_group(\"gloo\")")


def _join(rank, size, timeout):
    """The world of this process, also for a process group that comes after another was destroyed."""
    global _world
    if _world is None:
        usual = dist.constants.default_pg_timeout
        # A process has one world: that of hvd.init(), if it was called before.
        _world = _place.met() or trainrun.init(op_timeout=None if timeout == usual else timeout.total_seconds())
    if (_world.rank, _world.size) != (rank, size):
        raise invalid(f"torch calls this process rank {rank} of {size}, trainrun rank {_world.rank} of {_world.size}: the backend "
                      "trainrun takes its ranks from the launcher; try: trainrun -np N python program.py, and init_process_group "
                      "without rank and world_size")
    return _world


def _create(options, *_):
    _require()
    from trainrun.torch._backend import TrainrunBackend, group_of
    rank, size, ranks = options.group_rank, options.group_size, list(options.global_ranks_in_group)
    if _world is None or not ranks:
        world = _join(rank, size, options.timeout)
        _wrapped.clear()
        backend = TrainrunBackend(world, world, range(size), options.store, options.timeout)
    else:
        backend = group_of(_world, ranks, options.store, options.timeout)
    if dist.get_debug_level() == dist.DebugLevel.DETAIL:
        _wrapped.append(backend)
    return backend


def failure():
    """The exception that tells how the world of init_process_group("trainrun") has ended; None while it goes on."""
    if _world is None:
        return None
    from trainrun.torch._pending import ends
    return ends[0] if ends else _foreign.over(_world._alive())


def _create_for_old(*_):
    _require()


def register():
    if not dist.is_available() or not hasattr(dist, "Backend") or not hasattr(dist.Backend, "register_backend"):
        return
    known = inspect.signature(dist.Backend.register_backend).parameters
    if "devices" in known:
        dist.Backend.register_backend("trainrun", _create, extended_api=True, devices=["cpu", "cuda"])
    else:
        dist.Backend.register_backend("trainrun", _create_for_old)
