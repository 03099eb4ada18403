"""A world of ranks and its operations on buffers of numbers."""
import ctypes
import weakref

from trainrun import _library
from trainrun._library import check, lib

_OPS = {"sum": 0, "mean": 1, "min": 2, "max": 3, "prod": 4}
_KINDS = {("u", 1): 0, ("i", 1): 1, ("i", 4): 2, ("i", 8): 3, ("f", 4): 4, ("f", 8): 5}


def pinned(buffer, writable=True):
    """(address, bytes, element type, what keeps it alive) of contiguous memory that cannot move meanwhile."""
    view = memoryview(buffer)
    if not view.c_contiguous:
        raise ValueError("the buffer is not contiguous")
    letter = view.format.lstrip("@=<")
    kind = "f" if letter in "fd" else "u" if letter in "BcC?" else "i" if letter in "bilq" else None
    dtype = _KINDS.get((kind, view.itemsize))
    if view.readonly:
        if writable:
            raise ValueError("the buffer is read-only")
        copy = ctypes.create_string_buffer(view.tobytes(), view.nbytes)
        return ctypes.addressof(copy), view.nbytes, dtype, copy
    if view.nbytes == 0:
        return None, 0, dtype, view
    memory = (ctypes.c_char * view.nbytes).from_buffer(view.cast("B") if view.format != "B" or view.ndim != 1 else view)
    return ctypes.addressof(memory), view.nbytes, dtype, memory


def _elements(buffer, writable=True):
    address, size, dtype, keep = pinned(buffer, writable)
    if dtype is None:
        raise ValueError(f"elements of format {memoryview(buffer).format!r} cannot be exchanged")
    return address, size // memoryview(buffer).itemsize, dtype, keep


class World:
    def __init__(self, handle, owned=True):
        self._handle = handle
        self._free = weakref.finalize(self, lib.trc_world_free, handle) if owned else None
        # These never change, and are told also when the world is over.
        self._rank, self._size = lib.trc_rank(handle), lib.trc_size(handle)
        self._local_rank, self._local_size = lib.trc_local_rank(handle), lib.trc_local_size(handle)
        self._generation = lib.trc_generation(handle)
        self._backend = lib.trc_backend(handle).decode()

    @property
    def rank(self):
        return self._rank

    @property
    def size(self):
        return self._size

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
        """How the ranks exchange bytes: "shm" (memory of one host), "gloo" (TCP) or "local" (one rank)."""
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

    def allreduce(self, data, op="sum"):
        """In place; `op` is sum, mean, min, max or prod."""
        address, count, dtype, keep = _elements(data)
        check(lib.trc_allreduce(self._group, address, address, count, dtype, _OPS[op]))
        del keep
        return data

    def broadcast(self, data, root=0):
        address, count, dtype, keep = _elements(data)
        check(lib.trc_broadcast(self._group, address, count, dtype, root))
        del keep
        return data

    def allgather(self, data, out):
        """`out` holds size times as many elements, in the order of the ranks."""
        address, count, dtype, keep = _elements(data, writable=False)
        to, room, out_dtype, keep_out = _elements(out)
        if room != count * self.size or out_dtype != dtype:
            raise ValueError(f"out has {room} elements, not {count} of the same type from each of {self.size} ranks")
        check(lib.trc_allgather(self._group, address, to, count, dtype))
        del keep, keep_out
        return out

    def barrier(self):
        check(lib.trc_barrier(self._group))

    def shutdown(self):
        """The orderly end, together with all other ranks."""
        check(lib.trc_world_finalize(self._alive()))


def init(op_timeout=None, init_timeout=None):
    """Meets the other ranks. Times in seconds."""
    handle = ctypes.c_void_p()
    plain = _library.options(op_timeout, init_timeout)
    check(lib.trc_world_init(ctypes.byref(plain), ctypes.byref(handle)))
    return World(handle)
