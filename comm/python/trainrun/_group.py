"""Operations of a group of ranks on buffers of numbers."""
import ctypes

from trainrun._library import Operation, check, invalid, lib

_OPS = {"sum": 0, "mean": 1, "min": 2, "max": 3, "prod": 4, "product": 4, "band": 5, "bor": 6, "bxor": 7}
_DTYPES = {"u8": 0, "i8": 1, "i32": 2, "i64": 3, "f32": 4, "f64": 5, "f16": 6, "bf16": 7, "bool": 8}
_STATES = ("runs", "done", "failed")
_KEPT = 64
_WIDTHS = (1, 1, 4, 8, 4, 8, 2, 2, 1)
_KINDS = {("u", 1): 0, ("i", 1): 1, ("i", 4): 2, ("i", 8): 3, ("f", 4): 4, ("f", 8): 5, ("f", 2): 6, ("?", 1): 8}


def pinned(buffer, writable=True):
    """(address, bytes, element type, what keeps it alive) of contiguous memory that cannot move meanwhile."""
    try:
        view = memoryview(buffer)
    except TypeError:
        raise TypeError(f"a {type(buffer).__name__} has no memory of numbers; try: numpy.array(...) or array.array('f', ...)") from None
    if not view.c_contiguous:
        raise ValueError("the buffer is not contiguous, in the order of C")
    letter = view.format.lstrip("@=<")
    kind = "f" if letter in "efd" else "u" if letter in "Bc" else "i" if letter in "bilq" else letter
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


class _Elements:
    """A buffer as the library takes it; alive as long as this is."""

    def __init__(self, buffer, dtype=None, writable=True):
        self.address, size, own, self._keep = pinned(buffer, writable)
        if dtype is not None and dtype not in _DTYPES:
            raise ValueError(f"dtype {dtype!r} is none of {', '.join(_DTYPES)}")
        self.dtype = own if dtype is None else _DTYPES[dtype]
        if self.dtype is None:
            raise ValueError(f"elements of format {memoryview(buffer).format!r} cannot be exchanged; try: another type, one of "
                             f"{', '.join(_DTYPES)}, or dtype= with the one that the bytes are")
        if size % _WIDTHS[self.dtype]:
            raise ValueError(f"{size} bytes are no whole number of elements")
        self.count = size // _WIDTHS[self.dtype]

    def must_have(self, count, dtype, what):
        if self.count != count or self.dtype != dtype:
            own, wanted = list(_DTYPES)[self.dtype], list(_DTYPES)[dtype]
            raise ValueError(f"{what} has {self.count} elements of {own}, not {count} of {wanted}")


def _op(name):
    if name not in _OPS:
        raise ValueError(f"op {name!r} is none of {', '.join(_OPS)}")
    return _OPS[name]


class _Nothing:
    """Where a rank has no buffer."""
    address = None


def _counts(counts, size):
    if len(counts) != size:
        raise ValueError(f"{len(counts)} counts for {size} ranks")
    if min(counts) < 0:
        raise ValueError(f"a count of {min(counts)}, below 0")
    return (ctypes.c_uint64 * size)(*counts)


class Group:
    """Some ranks of a world, which are numbered from 0 in it. Buffers are writable ones of numbers; `dtype` ("bf16") says
    what their elements are where Python has no word for it. What is given may be what is got where both have one size."""

    _devices = None  # of trainrun.torch

    def __init__(self, handle, world, ranks):
        self._handle_of_group, self._world, self._ranks = handle, world, list(ranks)
        self._rank, self._size = lib.trc_group_rank(handle), lib.trc_group_size(handle)

    @property
    def _group(self):
        if self._world is not None:
            self._world._alive()
        if self._handle_of_group is None:
            raise invalid("the group was freed")
        return self._handle_of_group

    @property
    def rank(self):
        return self._rank

    @property
    def size(self):
        return self._size

    def allreduce(self, data, op="sum", before=1.0, after=1.0, dtype=None):
        """In place. `op`: sum, mean, min, max, prod (or product), band, bor, bxor. Each rank's elements are multiplied by `before`,
        the results by `after`."""
        own = _Elements(data, dtype)
        check(lib.trc_allreduce_scaled(self._group, own.address, own.address, own.count, own.dtype, _op(op), before, after))
        return data

    def reduce(self, data, root=0, op="sum", dtype=None):
        """In place on `root`; what the others have stays as it is."""
        own = _Elements(data, dtype)
        to = own.address if self._rank == root else None
        check(lib.trc_reduce(self._group, own.address, to, own.count, own.dtype, _op(op), root))
        return data

    def reduce_scatter(self, data, out, op="sum", dtype=None):
        """`data` holds size times as many elements as `out`."""
        own, to = _Elements(data, dtype, writable=False), _Elements(out, dtype)
        own.must_have(to.count * self._size, to.dtype, "data")
        check(lib.trc_reduce_scatter(self._group, own.address, to.address, to.count, to.dtype, _op(op)))
        return out

    def broadcast(self, data, root=0, dtype=None):
        own = _Elements(data, dtype)
        check(lib.trc_broadcast(self._group, own.address, own.count, own.dtype, root))
        return data

    def allgather(self, data, out, dtype=None):
        """`out` holds size times as many elements, in the order of the ranks."""
        own, to = _Elements(data, dtype, writable=False), _Elements(out, dtype)
        to.must_have(own.count * self._size, own.dtype, "out")
        check(lib.trc_allgather(self._group, own.address, to.address, own.count, own.dtype))
        return out

    def allgatherv(self, data, out, counts, dtype=None):
        """`counts`: the elements of each rank, the same on all."""
        own, to, lengths = _Elements(data, dtype, writable=False), _Elements(out, dtype), _counts(counts, self._size)
        own.must_have(counts[self._rank], to.dtype, "data")
        to.must_have(sum(counts), own.dtype, "out")
        check(lib.trc_allgatherv(self._group, own.address, to.address, lengths, own.dtype))
        return out

    def gather(self, data, out=None, root=0, dtype=None):
        """`out`, on `root`, holds size times as many elements."""
        own, to = _Elements(data, dtype, writable=False), _Nothing
        if self._rank == root:
            to = _Elements(out, dtype)
            to.must_have(own.count * self._size, own.dtype, "out")
        check(lib.trc_gather(self._group, own.address, to.address, own.count, own.dtype, root))
        return out

    def scatter(self, data, out, root=0, dtype=None):
        """`data`, on `root`, holds size times as many elements as `out`."""
        to, own = _Elements(out, dtype), _Nothing
        if self._rank == root:
            own = _Elements(data, dtype, writable=False)
            own.must_have(to.count * self._size, to.dtype, "data")
        check(lib.trc_scatter(self._group, own.address, to.address, to.count, to.dtype, root))
        return out

    def alltoall(self, data, out, dtype=None):
        """Both hold as many elements for each rank."""
        own, to = _Elements(data, dtype, writable=False), _Elements(out, dtype)
        to.must_have(own.count, own.dtype, "out")
        if own.count % self._size:
            raise ValueError(f"{own.count} elements for {self._size} ranks")
        check(lib.trc_alltoall(self._group, own.address, to.address, own.count // self._size, own.dtype))
        return out

    def alltoallv(self, data, counts, out, out_counts, dtype=None):
        """`counts`: elements for each rank, `out_counts`: from each."""
        own, to = _Elements(data, dtype, writable=False), _Elements(out, dtype)
        own.must_have(sum(counts), to.dtype, "data")
        to.must_have(sum(out_counts), own.dtype, "out")
        check(lib.trc_alltoallv(self._group, own.address, _counts(counts, self._size), to.address,
                                _counts(out_counts, self._size), own.dtype))
        return out

    def barrier(self):
        check(lib.trc_barrier(self._group))

    def send(self, data, to, dtype=None):
        own = _Elements(data, dtype, writable=False)
        check(lib.trc_send(self._group, own.address, own.count, own.dtype, to))

    def receive(self, data, source, dtype=None):
        own = _Elements(data, dtype)
        check(lib.trc_recv(self._group, own.address, own.count, own.dtype, source))
        return data

    def recent(self):
        """The last 64 operations of this rank in the group, the oldest first, each a dict: name, sequence, bytes, state ("runs",
        "done" or "failed"), begun and ended (seconds of time.monotonic(); None while it runs). From any thread, also after a failure."""
        room = (Operation * _KEPT)()
        room[0].struct_size = ctypes.sizeof(Operation)
        return [{"name": one.name.decode(), "sequence": one.sequence, "bytes": one.bytes, "state": _STATES[one.state],
                 "begun": one.begun_ns / 1e9, "ended": one.ended_ns / 1e9 if one.ended_ns else None}
                for one in room[:lib.trc_group_recent(self._group, room, _KEPT)]]

    def join(self):
        """Takes part with zeros in what the others do, allreduces and barriers, until all ranks have called this."""
        check(lib.trc_join(self._group))

    def free(self):
        """All members call it, once, and no operation after it. Else the group ends with its world."""
        check(lib.trc_group_free(self._group))
        self._handle_of_group = None

    def leave(self):
        """The same without waiting for the others: what it holds is given back once all have left it, and all has ended there."""
        check(lib.trc_group_leave(self._group))
        self._handle_of_group = None
