"""A training that goes on, in the same process, when other ranks die, and when hosts come or go.

    state = elastic.State(step=0)                # values: whatever JSON can say
    state.buffer("weights", weights)             # any writable buffer: numpy, array, bytearray

    def train(world):
        while state.step < 1000:
            ...compute, world.allreduce(gradients)...
            state.step += 1
            if state.step % 10 == 0:
                state.commit()

    elastic.run(state, train)

A failure leads back to the last commit, in a new world, of all ranks; `train` is called again there. What lies outside
the state must be made anew from the state alone. All ranks run the same operations from the beginning of `train`.
"""
import ctypes
import json

from trainrun import _library
from trainrun._group import pinned
from trainrun._library import Error, HostsUpdated, Removed, check, invalid, lib
from trainrun._world import World

__all__ = ["HostsUpdated", "Removed", "Sampler", "State", "run", "scale_with_size"]

_VALUES = b"values"


def must_be_free(state, name):
    """Who reads an attribute that the class itself has would not get the value."""
    if name.startswith("_") or hasattr(state, name):
        raise invalid(f"no part of a State can be called {name!r}, which is a name of its own: call it otherwise")


def must_be_plain(value, where):
    """What JSON would change on its way, or cannot say, is refused by its name."""
    if isinstance(value, dict):
        for key, one in value.items():
            if not isinstance(key, str):
                raise invalid(f"{where} has the key {key!r}, which would come back as a string: use strings as keys")
            must_be_plain(one, f"{where}[{key!r}]")
    elif isinstance(value, list):
        for number, one in enumerate(value):
            must_be_plain(one, f"{where}[{number}]")
    elif isinstance(value, tuple):
        raise invalid(f"{where} is a tuple, which would come back as a list: use a list")
    elif not isinstance(value, (int, float, str, type(None))):
        raise invalid(f"{where} is of type {type(value).__name__}, which JSON cannot say: numbers, strings, lists and dicts can be values; "
                      "arrays are for buffer()")


class State:
    """What a training must not lose. Attributes are values; all ranks have the same names."""

    def __init__(self, **values):
        for name, value in values.items():
            must_be_free(State, name)
            must_be_plain(value, name)
        handle = ctypes.c_void_p()
        check(lib.trc_state_new(ctypes.byref(handle)))
        self.__dict__.update(_handle=handle, _values=dict(values), _kept={}, _callbacks=[], _samplers=[], _world=None)
        check(lib.trc_state_add_blob(handle, _VALUES))

    def __del__(self):
        handle = self.__dict__.get("_handle")
        if handle is not None:
            lib.trc_state_free(handle)

    def __getattr__(self, name):
        try:
            return self.__dict__["_values"][name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name, value):
        must_be_free(State, name)
        must_be_plain(value, name)
        self._values[name] = value

    def buffer(self, name, data):
        """Memory that belongs to the state. It must stay where it is: an array that is replaced is not the state's."""
        address, size, _, keep = pinned(data)
        check(lib.trc_state_add(self._handle, name.encode(), address, size))
        self._kept[name] = keep
        return self

    def sampler(self, name, sampler):
        self._values[name] = sampler.state()
        self._samplers.append((name, sampler))
        return self

    def on_reset(self, callback):
        """callback(old_size, new_size) in each new world but the first, before the state is synchronised."""
        self._callbacks.append(callback)

    def _pack(self):
        for name, sampler in self._samplers:
            self._values[name] = sampler.state()
        for name, value in self._values.items():  # which may have changed in itself
            must_be_plain(value, name)
        text = json.dumps(self._values, sort_keys=True).encode()
        check(lib.trc_state_set_blob(self._handle, _VALUES, text, len(text)))

    def _unpack(self):
        data, size = ctypes.c_void_p(), ctypes.c_size_t()
        check(lib.trc_state_get_blob(self._handle, _VALUES, ctypes.byref(data), ctypes.byref(size)))
        if size.value == 0:
            return
        values = json.loads(ctypes.string_at(data, size.value))
        self._values.clear()
        self._values.update(values)
        for name, sampler in self._samplers:
            sampler.load(values[name])

    def save(self):
        self._pack()
        check(lib.trc_state_save(self._handle))

    def commit(self):
        """The point to which a failure leads back; then raises HostsUpdated, on all ranks, if hosts will change."""
        self._current()
        self.save()
        self.check_host_updates()

    def check_host_updates(self):
        check(lib.trc_check_host_updates(self._current()._alive()))

    def should_stop(self):
        """This rank has heard that it is to go."""
        return bool(lib.trc_should_stop(self._current()._alive()))

    def _current(self):
        if self._world is None:
            raise invalid("the state is in no world yet: commit() and check_host_updates() are for the function that "
                          "run() calls; save() takes the snapshot alone")
        return self._world

    def restore(self):
        check(lib.trc_state_restore(self._handle))
        self._unpack()

    def sync(self, world):
        """All ranks get the state of one that has the newest saved one. run() does this first in each world."""
        self.__dict__["_world"] = world
        self._pack()
        check(lib.trc_state_sync(self._handle, world._alive()))
        self._unpack()


def run(state, train, op_timeout=None, init_timeout=None):
    """Calls train(world), again after each failure that another world can mend, and returns what it returns. Raises
    Removed, which ends the process with 0 unless it is caught, when the job has no more use for it. Once in a program: what it
    returns from has left the world, and a second call is Invalid."""
    membership, world = ctypes.c_void_p(), None
    plain = _library.options(op_timeout, init_timeout)
    check(lib.trc_elastic_new(ctypes.byref(plain), ctypes.byref(membership)))
    try:
        size, ended = 0, _library.OK
        while True:
            if world is not None:
                world._retire()
            handle = ctypes.c_void_p()
            # A failure on the way to the next world restores the state there. Values and buffers must then be of one
            # age, so the values travel with the buffers, and come back as they are after it.
            if ended in (_library.OK, _library.HOSTS_UPDATED):
                state._pack()
            check(lib.trc_elastic_form(membership, state._handle, ended, ctypes.byref(handle)))
            state._unpack()
            world = World(handle, owned=False)
            try:
                if size > 0:
                    for callback in state._callbacks:
                        callback(size, world.size)
                size = world.size
                state.sync(world)
                result = train(world)
                check(lib.trc_elastic_finish(membership))
                return result
            except Error as error:
                if not lib.trc_elastic_goes_on(error.status):
                    raise
                ended = error.status
    except Exception as error:
        # The program's own ends it most often. The others hear of that by the end of the process, and to meet them
        # before, as freeing would, lets them wait longer.
        if not isinstance(error, Error):
            membership = None
        raise
    finally:
        state.__dict__["_world"] = None
        if world is not None:
            world._retire()
        if membership is not None:
            lib.trc_elastic_free(membership)


def scale_with_size(apply, per_rank):
    """A reset callback: apply(rate) with `per_rank` for each rank of the new world."""
    return lambda old_size, new_size: apply(per_rank * new_size)


class Sampler:
    """The order in which an epoch goes through 0..count-1, and how far it has come; the same as in C++. What was
    recorded is not seen again in the epoch: after a change of the world the rest is shared out anew."""

    def __init__(self, count, seed=0, shuffle=True):
        self._count, self._seed, self._shuffle = count, seed, shuffle
        self._order, self._ordered_for = None, None
        self.epoch, self.processed = 0, 0

    def next(self, count):
        """The next indices of the epoch for all ranks together: `count`, fewer at its end."""
        if self._ordered_for != self.epoch:
            self._order, self._ordered_for = self._sort_out(), self.epoch
        return self._order[self.processed:self.processed + count]

    @staticmethod
    def share(batch, world):
        """This rank's of them."""
        return batch[world.rank::world.size]

    def record(self, count):
        """So many of next() were processed, by all ranks together."""
        self.processed = min(self.processed + count, self._count)

    def done(self):
        return self.processed >= self._count

    def next_epoch(self):
        self.epoch, self.processed = self.epoch + 1, 0

    def state(self):
        return [self.epoch, self.processed]

    def load(self, state):
        self.epoch, self.processed = state

    def _sort_out(self):
        order = list(range(self._count))
        if not self._shuffle:
            return order
        mask = (1 << 64) - 1
        state = (self._seed * 0x9e3779b97f4a7c15 + self.epoch) & mask
        for i in range(self._count, 1, -1):
            state = (state + 0x9e3779b97f4a7c15) & mask
            z = ((state ^ (state >> 30)) * 0xbf58476d1ce4e5b9) & mask
            z = ((z ^ (z >> 27)) * 0x94d049bb133111eb) & mask
            other = (z ^ (z >> 31)) % i
            order[i - 1], order[other] = order[other], order[i - 1]
        return order
