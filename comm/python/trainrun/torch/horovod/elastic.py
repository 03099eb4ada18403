"""hvd.elastic: states and the loop of Horovod's elastic programs, on the worlds of trainrun's.

    hvd.init()
    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, batch=0)

    @hvd.elastic.run
    def train(state):
        ...
        state.commit()

After a failure the survivors go back to their last commit, and all ranks take the state of the one with the most commits:
Horovod takes that of rank 0. Between hvd.init() and train(state) no operation may be called, as ranks that come later
would call it alone.
"""
import atexit
import ctypes
import os

from trainrun import _library
from trainrun._library import OK, HostsUpdated, WorldFailed, check, invalid, lib
from trainrun._world import World
from trainrun.torch._pack import pack
from trainrun.torch.horovod import _place
from trainrun.torch.horovod._objects import allgather_object, broadcast_object


class State:
    """What must not be lost. Subclasses have save, restore and sync; `_root` is the rank whose state sync() gives to all."""

    _root = 0

    def __init__(self, **kwargs):
        self._reset_callbacks, self._commits, self._seasoned = [], 0, False

    def register_reset_callbacks(self, callbacks):
        """Called, without arguments, in each new world before its ranks are synchronised: hvd.size() is the new one."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self):
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def commit(self):
        """The point to which a failure leads back; then check_host_updates()."""
        self.save()
        self._commits += 1
        _progressed()
        self.check_host_updates()

    def check_host_updates(self):
        """All ranks call it at the same point. When hosts come or go, all leave the function by an exception that run()
        understands, and lose nothing."""
        check(lib.trc_check_host_updates(_place.world()._alive()))

    def save(self):
        raise NotImplementedError

    def restore(self):
        raise NotImplementedError

    def sync(self):
        raise NotImplementedError

    def reset(self):
        """For subclasses: in each new world, before the callbacks."""

    def _agree(self):
        """Who has the most commits gives its state: of ranks that were in a world before, if there are such. How many it has."""
        every = allgather_object([self._seasoned, self._commits])
        self._root = max(range(len(every)), key=lambda rank: (every[rank], -rank))
        return every[self._root][1]

    def _enter(self):
        """Not before it is there this rank has the state, or any commits."""
        commits = self._agree()
        self.sync()
        self.save()
        self._seasoned, self._commits = True, commits


class ObjectState(State):
    """Attributes: whatever broadcast_object() takes. Saved by reference, as Horovod does: replace what changes."""

    def __init__(self, bcast_object=None, get_rank=None, **kwargs):
        super().__init__()
        self._saved_state = kwargs
        self._set_attributes()

    def save(self):
        self._saved_state = {name: getattr(self, name) for name in self._saved_state}
        pack(self._saved_state, [], "the state")  # what cannot travel is refused here, and not after the first failure

    def restore(self):
        self._set_attributes()

    def sync(self):
        if self._saved_state:
            self.save()  # what a commit did not reach is the root's as well
            self._saved_state = broadcast_object(self._saved_state, self._root, "the state")
            self._set_attributes()

    def _set_attributes(self):
        for name, value in self._saved_state.items():
            setattr(self, name, value)


class _Membership:
    """This process's place in one world after the other."""

    def __init__(self):
        self._elastic, self._progress = ctypes.c_void_p(), ctypes.c_void_p()
        plain = _library.options(None, None)
        check(lib.trc_elastic_new(ctypes.byref(plain), ctypes.byref(self._elastic)))
        check(lib.trc_state_new(ctypes.byref(self._progress)))  # empty: it counts failures without a commit in between
        self._world, self._pid = None, os.getpid()
        atexit.register(self._end)

    def form(self, ended=OK):
        handle = ctypes.c_void_p()
        if self._world is not None:
            self._world._retire()
            _place.leave()
        check(lib.trc_elastic_form(self._elastic, self._progress, ended, ctypes.byref(handle)))
        self._world = World(handle, owned=False)
        _place.enter(self._world)

    def progressed(self):
        check(lib.trc_state_save(self._progress))

    def _end(self):
        if os.getpid() == self._pid:
            lib.trc_elastic_free(self._elastic)


_membership = None


def _progressed():
    if _membership is not None:
        _membership.progressed()


def run(function, state, args, kwargs):
    """function(state, ...), again in each new world; gives what it returns. What it raises by itself is the end."""
    global _membership
    if _membership is None and _place.elastic_job():
        _place.place()
        if _place.met() is not None:
            raise invalid("an operation was called between hvd.init() and hvd.elastic.run: a rank that comes later would call it alone; "
                          "call it in the function, or not at all")
        _membership = _Membership()
        _membership.form()
    while True:
        try:
            state._enter()
            return function(state, *args, **kwargs)
        except (WorldFailed, HostsUpdated) as error:
            if _membership is None:
                raise
            ended = error.status
            if ended != _library.HOSTS_UPDATED:
                state.restore()
        _membership.form(ended)
        state.on_reset()
