"""Groups on devices over NCCL, and NCCL's unique ids for programs that call it themselves.

    ids = trainrun.nccl.unique_ids(world)                      # of one communicator of all ranks: bytes for ncclCommInitRank
    group = trainrun.nccl.group(world, device=world.local_rank)
    group.allreduce(tensor, "mean")                            # enqueued, on the stream that was given
    group.allreduce_list(gradients, "mean", wire="bfloat16")   # of many tensors, cast on the way
    group.barrier()                                            # the device has done it, on all ranks

trainrun_nccl.h says what happens. Tensors are contiguous and have data_ptr, numel and dtype, as torch's; one that is enqueued
must not be freed before the stream has done with it, which torch's allocator sees to for its own streams.
"""
import array
import ctypes
import importlib.util
import os

from trainrun._group import _op
from trainrun._library import check, invalid, lib

_TYPES = {"uint8": 0, "int8": 1, "int32": 2, "int64": 3, "float32": 4, "float64": 5, "float16": 6, "bfloat16": 7, "bool": 8}


def library_of_wheel():
    """The libnccl that torch would load from a wheel of this interpreter, or None."""
    try:
        found = importlib.util.find_spec("nvidia.nccl")
    except (ImportError, ValueError):
        found = None
    for folder in found.submodule_search_locations or () if found else ():
        path = os.path.join(folder, "lib", "libnccl.so.2")
        if os.path.exists(path):
            return path
    return None


def _prepare():
    wheel = library_of_wheel()
    if wheel:
        check(lib.trc_nccl_look_at(os.fsencode(wheel)))


def _numbers(ranks):
    return (None, 0) if ranks is None else ((ctypes.c_int * len(ranks))(*ranks), len(ranks))


def describe_host(json=False):
    """What the library and this host can do, as lines or as JSON."""
    _prepare()
    return lib.trc_describe_host(1 if json else 0).decode("utf-8", "replace")


def unique_ids(world, ranks=None):
    """Of one communicator of these ranks of the world (all), which all call it: bytes, one for each started 128 ranks."""
    _prepare()
    count = lib.trc_nccl_id_count(world.size if ranks is None else len(ranks))
    room = ctypes.create_string_buffer(128 * max(count, 1))
    check(lib.trc_nccl_ids(world._alive(), *_numbers(ranks), room, count))
    return [room.raw[128 * i:128 * (i + 1)] for i in range(count)]


def group(world, ranks=None, *, device, stream=None):
    """A DeviceGroup of these ranks of the world (all), which all call it; None on a rank that is none of them. `stream`: a
    number, or an object that has it as cuda_stream."""
    _prepare()
    handle = ctypes.c_void_p()
    check(lib.trc_nccl_group_create(world._alive(), *_numbers(ranks), device, _stream(stream), ctypes.byref(handle)))
    return DeviceGroup(handle, world) if handle else None


def beside(of, giver=0, taker=0, *, device, stream=None):
    """A DeviceGroup of the ranks of `of`, a World or Group, or of two of them for what the first gives to the second; None on a
    rank that is neither. Its members may make it at different times, and on other threads (trc_nccl_beside)."""
    _prepare()
    handle, world = ctypes.c_void_p(), of._world or of
    check(lib.trc_nccl_beside(world._alive(), of._group, giver, taker, device, _stream(stream), ctypes.byref(handle)))
    return DeviceGroup(handle, world) if handle else None


def _stream(stream):
    return getattr(stream, "cuda_stream", stream)


class _Tensor:
    def __init__(self, tensor):
        if not tensor.is_contiguous():
            raise invalid("the tensor is not contiguous")
        self.address, self.count, self.dtype, self.type = tensor.data_ptr(), tensor.numel(), _type_of(tensor), tensor.dtype

    def must_be(self, other, blocks, what):
        if self.count != other.count * blocks or self.dtype != other.dtype:
            raise invalid(f"{what} has {self.count} elements of {self.type}, not {other.count * blocks} of {other.type}")


_type_by_dtype = {}  # since a dtype's name costs more than the rest of a tensor


def _type_of(tensor):
    dtype = tensor.dtype
    if dtype not in _type_by_dtype:
        _type_by_dtype[dtype] = _TYPES.get(str(dtype).rpartition(".")[2])
    if _type_by_dtype[dtype] is None:
        raise invalid(f"elements of {dtype} cannot be exchanged")
    return _type_by_dtype[dtype]


class DeviceGroup:
    """Operations are enqueued, and return; barrier waits. Made by group()."""

    def __init__(self, handle, world):
        self._handle, self._world = handle, world
        self.rank, self.size = lib.trc_group_rank(handle), lib.trc_group_size(handle)

    def _group(self):
        self._world._alive()
        if self._handle is None:
            raise invalid("the group was freed")
        return self._handle

    def use_stream(self, stream):
        check(lib.trc_nccl_use_stream(self._group(), _stream(stream)))

    def allreduce(self, tensor, op="sum"):
        """In place."""
        own = _Tensor(tensor)
        check(lib.trc_allreduce(self._group(), own.address, own.address, own.count, own.dtype, _op(op)))

    def allreduce_list(self, tensors, op="mean", wire=None, before=1, after=1):
        """In place, of float32, float16 and bfloat16 tensors, all in one, times `before` and afterwards `after`. They travel as
        `wire`: one of these types, by its name or torch's; without it as their own, or float32 where there are several."""
        types = [_type_of(tensor) for tensor in tensors]
        if not all(tensor.is_contiguous() for tensor in tensors):
            raise invalid("a tensor of the list is not contiguous")
        name = str(wire).rpartition(".")[2]
        if wire is not None and name not in _TYPES:
            raise invalid(f"wire {wire!r} is none of float32, float16, bfloat16")
        travels = _TYPES[name] if wire is not None else types[0] if len(set(types)) == 1 else _TYPES["float32"]
        # trc_nccl_tensor: two addresses, the count, and the type with what fills it up to the next one.
        listed = array.array("Q")
        for tensor, kind in zip(tensors, types):
            address = tensor.data_ptr()
            listed.extend((address, address, tensor.numel(), kind))
        check(lib.trc_nccl_allreduce_list(self._group(), listed.buffer_info()[0], len(types), travels, _op(op), before, after))

    def broadcast(self, tensor, root):
        own = _Tensor(tensor)
        check(lib.trc_broadcast(self._group(), own.address, own.count, own.dtype, root))

    def allgather(self, tensor, into):
        """`into` has a block for each rank."""
        own, out = _Tensor(tensor), _Tensor(into)
        out.must_be(own, self.size, "the result")
        check(lib.trc_allgather(self._group(), own.address, out.address, own.count, own.dtype))

    def reduce_scatter(self, tensor, into, op="sum"):
        """`tensor` has a block for each rank."""
        own, out = _Tensor(tensor), _Tensor(into)
        own.must_be(out, self.size, "the tensor")
        check(lib.trc_reduce_scatter(self._group(), own.address, out.address, out.count, out.dtype, _op(op)))

    def alltoall(self, tensor, into):
        own, out = _Tensor(tensor), _Tensor(into)
        out.must_be(own, 1, "the result")
        if own.count % self.size:
            raise invalid(f"{own.count} elements are no blocks for {self.size} ranks")
        check(lib.trc_alltoall(self._group(), own.address, out.address, own.count // self.size, own.dtype))

    def alltoallv(self, tensor, counts, into, into_counts):
        """`counts`: elements to each rank, `into_counts`: from each, which they must give; another buffer than the tensor."""
        own, out = _Tensor(tensor), _Tensor(into)
        if own.count != sum(counts) or out.count != sum(into_counts) or own.dtype != out.dtype or not len(counts) == len(into_counts) == self.size:
            raise invalid(f"counts {list(counts)} and {list(into_counts)} of {own.count} and {out.count} elements among {self.size} ranks")
        kind = ctypes.c_uint64 * self.size
        check(lib.trc_alltoallv(self._group(), own.address, kind(*counts), out.address, kind(*into_counts), own.dtype))

    def send(self, tensor, to):
        own = _Tensor(tensor)
        check(lib.trc_send(self._group(), own.address, own.count, own.dtype, to))

    def receive(self, tensor, source):
        own = _Tensor(tensor)
        check(lib.trc_recv(self._group(), own.address, own.count, own.dtype, source))

    def barrier(self):
        """What was enqueued on the stream is done, on all ranks."""
        check(lib.trc_barrier(self._group()))

    def wait(self, event):
        """This rank's part of what was enqueued before the event is done, or an error. `event`: a number, or torch's, recorded."""
        check(lib.trc_nccl_wait(self._group(), getattr(event, "cuda_event", event)))

    def free(self):
        """All members call it."""
        check(lib.trc_group_free(self._group()))
        self._handle = None
