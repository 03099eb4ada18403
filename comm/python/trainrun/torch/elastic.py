"""A training of PyTorch that goes on, in the same process, when other ranks die, and when hosts come or go.

    from trainrun.torch import elastic

    elastic.init()                                                  # instead of dist.init_process_group
    state = elastic.State(model=model, optimizer=optimizer, sampler=sampler, epoch=0)

    @elastic.run
    def train(state):
        ddp = DistributedDataParallel(state.model)                  # anew in each world
        while state.epoch < epochs:
            sampler.set_epoch(state.epoch)
            for batch, wanted in loader:
                ...forward, backward, optimizer.step()...
                state.step(len(batch))
            state.epoch += 1

    train(state)

When the launcher ends a world, every operation of torch that waits fails within milliseconds, the survivors and who is
new form torch's default group anew, the newest survivor gives its state to who has another one, and the function is
called again. Between init() and run() no rank may call an operation of torch.distributed: a rank that joins later
would call it alone.

With `import trainrun.torch as hvd` this is also hvd.elastic: TorchState, ObjectState and ElasticSampler are those of Horovod's
API, whose operations are trainrun's own, and run() with one of these states is its loop (trainrun.torch.horovod.elastic).
"""
import functools
import traceback

from trainrun._library import HOSTS_UPDATED, Error, HostsUpdated, Removed, invalid
from trainrun.torch._membership import Membership
from trainrun.torch._sampler import DistributedSampler
from trainrun.torch._state import State
from trainrun.torch.horovod import elastic as _horovod
from trainrun.torch.horovod._sampler import ElasticSampler
from trainrun.torch.horovod._torch_state import TorchState, get_handler_registry, set_handler_registry
from trainrun.torch.horovod.elastic import ObjectState

__all__ = ["DistributedSampler", "ElasticSampler", "HostsUpdated", "ObjectState", "Removed", "State", "TorchState",
           "get_handler_registry", "init", "run", "set_handler_registry"]

_membership, _finished = None, False


def init(backend="gloo", op_timeout=None, init_timeout=None):
    """Meets the other ranks and makes torch's default process group. Times in seconds."""
    global _membership
    if _membership is not None:
        raise invalid("init() was called already")
    membership = Membership(backend, op_timeout, init_timeout)
    membership.form()
    _membership = membership


def run(function, state=None, *args, **kwargs):
    """run(function, state, ...) calls function(state, ...), again in each new world, and returns what it returns.
    run(function) gives a function that does so. What kind of state it is decides which loop it is."""
    if state is not None:
        return _run(function, state, args, kwargs)

    @functools.wraps(function)
    def wrapped(state, *args, **kwargs):
        return _run(function, state, args, kwargs)

    return wrapped


def _run(function, state, args, kwargs):
    if isinstance(state, _horovod.State):
        return _horovod.run(function, state, args, kwargs)
    global _finished
    if _finished:
        raise invalid("run() is once in a program: what it returned from has left the world")
    if _membership is None:
        init()
    old_size = 0
    while True:
        size = _membership.world.size
        done, result = _attempt(function, state, old_size, args, kwargs)
        if done:
            _finished = True
            return result
        old_size = size
        state._leave(failed=result != HOSTS_UPDATED)
        _membership.form(result)


def _attempt(function, state, old_size, args, kwargs):
    """(True, what the function has returned), or (False, status of what has ended the world)."""
    try:
        _membership.refuse_other_groups()
        state._enter(_membership, old_size)
        result = function(state, *args, **kwargs)
        _membership.refuse_other_groups()
        _membership.finish()
        return True, result
    except RuntimeError as error:
        failure = error if isinstance(error, Error) else _membership.why(error)
        if not isinstance(failure, Error):
            raise
        if not _membership.goes_on(failure):
            raise failure from (None if failure is error else error)
        # What the function had, its DistributedDataParallel before all, hangs on the traceback.
        _forget(error)
        return False, failure.status


def _forget(error):
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error.__traceback__ = None
        before, error.__context__ = error.__context__, None
        error = before
