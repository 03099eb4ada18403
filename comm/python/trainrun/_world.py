"""A world of ranks, which is the group of all of them."""
import atexit
import ctypes
import sys
import weakref

from trainrun import _library
from trainrun._group import Group
from trainrun._library import check, lib


_open = []  # how worlds are freed that may be there at the end of the program


@atexit.register
def _free_at_exit():
    # After an exception that nobody caught, the end of the process says what there is to say, and others wait for it:
    # to meet them first would only let them wait longer.
    if not hasattr(sys, "last_type"):
        for free in _open:
            free()


class World(Group):
    _world = None

    def __init__(self, handle, owned=True):
        self._handle = handle
        self._free = None
        if owned:
            self._free = weakref.finalize(self, lib.trc_world_free, handle)
            self._free.atexit = False
            _open.append(self._free)
        # These never change, and are told also when the world is over.
        self._rank, self._size = lib.trc_rank(handle), lib.trc_size(handle)
        self._local_rank, self._local_size = lib.trc_local_rank(handle), lib.trc_local_size(handle)
        self._generation = lib.trc_generation(handle)
        self._backend = lib.trc_backend(handle).decode()

    @property
    def _ranks(self):
        return range(self._size)

    @property
    def local_rank(self):
        return self._local_rank

    @property
    def local_size(self):
        return self._local_size

    @property
    def generation(self):
        return self._generation

    def host(self, rank):
        name = lib.trc_host(self._alive(), rank)
        return None if name is None else name.decode("utf-8", "replace")

    @property
    def backend(self):
        """How the ranks exchange bytes: "shm" (memory of one host), "gloo" (TCP), "hier" (memory on each
        host, TCP between hosts) or "local" (one rank)."""
        return self._backend

    def _retire(self):
        """Of an elastic membership that goes on without it, or has ended."""
        self._handle = None

    def _alive(self):
        if self._handle is None:
            raise _library.invalid(f"the world of generation {self._generation} is over")
        return self._handle

    @property
    def _group(self):
        return lib.trc_world_group(self._alive())

    def group(self, ranks):
        """A group of these ranks, all of which call it; None on a rank that is none of them."""
        handle = ctypes.c_void_p()
        check(lib.trc_group_create(self._alive(), (ctypes.c_int * len(ranks))(*ranks), len(ranks), ctypes.byref(handle)))
        return Group(handle, self, ranks) if handle else None

    def shutdown(self):
        """The orderly end, together with all other ranks: Mismatch where one is still in an operation of all; what has failed
        before is raised again."""
        check(lib.trc_world_finalize(self._alive()))


def init(op_timeout=None, init_timeout=None):
    """Meets the other ranks. Times in seconds."""
    handle = ctypes.c_void_p()
    plain = _library.options(op_timeout, init_timeout)
    check(lib.trc_world_init(ctypes.byref(plain), ctypes.byref(handle)))
    return World(handle)
