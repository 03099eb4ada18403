"""A rank of tests/gpu/run: memory of a device by CUDA's driver, operations by trainrun.nccl. Modes: one, ops, lists, dies,
elastic, torch. Prints what it found; ends with 3 when an operation failed, with 1 when a result is wrong."""
import array
import ctypes
import os
import signal
import struct
import sys
import time

import trainrun
import trainrun.elastic
import trainrun.nccl

CUDA = ctypes.CDLL(os.environ.get("TRAINRUN_CUDA_LIB") or "libcuda.so.1")
FORMATS = {"float32": "f", "float64": "d", "int32": "i", "int64": "q", "uint8": "B"}
LISTED = ("float32", "float16", "bfloat16")


def encoded(values, dtype):
    if dtype == "float16":
        return struct.pack(f"={len(values)}e", *values)
    if dtype == "bfloat16":  # the upper half of an f32
        return array.array("H", [bits >> 16 for bits in array.array("I", array.array("f", values).tobytes())]).tobytes()
    return array.array(FORMATS[dtype], values).tobytes()


def decoded(raw, dtype):
    if dtype == "float16":
        return list(struct.unpack(f"={len(raw) // 2}e", raw))
    if dtype == "bfloat16":
        return array.array("f", array.array("I", [half << 16 for half in array.array("H", raw)]).tobytes()).tolist()
    return array.array(FORMATS[dtype], raw).tolist()


def cuda(name, *arguments):
    answer = getattr(CUDA, name)(*arguments)
    if answer != 0:
        sys.exit(f"{name}: CUDA error {answer}")


def take_device(local_rank):
    """The context in which this thread allocates; the devices are dealt out in turn."""
    count, context = ctypes.c_int(), ctypes.c_void_p()
    cuda("cuInit", 0)
    cuda("cuDeviceGetCount", ctypes.byref(count))
    device = local_rank % max(count.value, 1)
    cuda("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    cuda("cuCtxSetCurrent", context)
    return device


class Tensor:
    """Contiguous memory of a device, as trainrun.nccl takes it."""

    def __init__(self, values, dtype="float32"):
        self.dtype, self._count = dtype, len(values)
        raw = encoded(values, dtype)
        self._bytes, pointer = len(raw), ctypes.c_uint64()
        cuda("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(max(self._bytes, 1)))
        self._pointer = pointer.value
        cuda("cuMemcpyHtoD_v2", ctypes.c_uint64(self._pointer), raw, ctypes.c_size_t(self._bytes))

    def __del__(self):
        CUDA.cuMemFree_v2(ctypes.c_uint64(self._pointer))

    def data_ptr(self):
        return self._pointer

    def numel(self):
        return self._count

    def is_contiguous(self):
        return True

    def values(self):
        raw = ctypes.create_string_buffer(self._bytes)
        cuda("cuMemcpyDtoH_v2", raw, ctypes.c_uint64(self._pointer), ctypes.c_size_t(self._bytes))
        return decoded(raw.raw[:self._bytes], self.dtype)


def wait_for(group):
    """This rank's part of what is on the default stream, by an event."""
    event = ctypes.c_void_p()
    cuda("cuEventCreate", ctypes.byref(event), 2)
    cuda("cuEventRecord", event, None)
    group.wait(event.value)
    cuda("cuEventDestroy_v2", event)


def say(text):
    print(text, flush=True)


def must_be(what, got, expected):
    if list(got) != list(expected):
        say(f"wrong {what}: {list(got)[:4]} instead of {list(expected)[:4]}")
        sys.exit(1)


def one(world, device, rounds):
    """A communicator again and again: it must leave no descriptor and no thread."""
    def held():
        return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
    began, before = time.monotonic(), None
    for number in range(rounds):
        group = trainrun.nccl.group(world, device=device)
        tensor = Tensor([1.0 + world.rank] * 1000)
        group.allreduce(tensor)
        group.barrier()
        must_be("sum", tensor.values(), [sum(range(1, world.size + 1))] * 1000)
        group.free()
        if number == rounds // 2:
            before = held()
    after, until = held(), time.monotonic() + 20
    while (after[0] > before[0] or after[1] > before[1]) and time.monotonic() < until:
        after = held()  # what ends by itself
    say(f"{rounds} communicators of {world.size} in {time.monotonic() - began:.2f} s; descriptors {before[0]} -> {after[0]}, threads {before[1]} -> {after[1]}")
    if after[0] > before[0] or after[1] > before[1]:
        say("wrong: something is left of communicators")
        sys.exit(1)


def ops(world, device):
    group, n, me = trainrun.nccl.group(world, device=device), world.size, world.rank
    for dtype in FORMATS:
        own = [(me + i) % 5 for i in range(999)]
        of = [[(rank + i) % 5 for i in range(999)] for rank in range(n)]
        for op, reference in (("sum", sum), ("min", min), ("max", max)):
            tensor = Tensor(own, dtype)
            group.allreduce(tensor, op)
            group.barrier()
            must_be(f"{op} of {dtype}", tensor.values(), [reference(column) for column in zip(*of)])
        gathered = Tensor([0] * (999 * n), dtype)
        group.allgather(Tensor(own, dtype), gathered)
        group.barrier()
        must_be(f"allgather of {dtype}", gathered.values(), [value for row in of for value in row])
        scattered = Tensor([0] * 999, dtype)
        group.reduce_scatter(gathered, scattered)
        group.barrier()
        must_be(f"reduce_scatter of {dtype}", scattered.values(), [n * value for value in own])
        tensor = Tensor(own, dtype)
        group.broadcast(tensor, n - 1)
        group.barrier()
        must_be(f"broadcast of {dtype}", tensor.values(), of[n - 1])
        blocks = Tensor([0] * (2 * n), dtype)
        group.alltoall(Tensor([10 * me + other // 2 for other in range(2 * n)], dtype), blocks)
        group.barrier()
        must_be(f"alltoall of {dtype}", blocks.values(), [10 * (other // 2) + me for other in range(2 * n)])
        gives, gets = [(me + 2 * other) % 3 for other in range(n)], [(other + 2 * me) % 3 for other in range(n)]
        varied = Tensor([0] * sum(gets), dtype)
        group.alltoallv(Tensor([10 * me + other for other in range(n) for _ in range(gives[other])], dtype), gives, varied, gets)
        wait_for(group)
        must_be(f"alltoallv of {dtype}", varied.values(), [10 * other + me for other in range(n) for _ in range(gets[other])])
        if n > 1:
            tensor = Tensor(own, dtype)
            if me == 0:
                group.send(tensor, n - 1)
            elif me == n - 1:
                group.receive(tensor, 0)
            group.barrier()
            if me == n - 1:
                must_be(f"send of {dtype}", tensor.values(), of[0])
    say(f"every operation is right on {n} ranks")
    group.free()


def lists(world, device):
    """Lists of tensors by the library's own kernels: all sums are exact, and what is rounded is known."""
    group, n, me = trainrun.nccl.group(world, device=device), world.size, world.rank
    first = [Tensor([me], dtype) for dtype in LISTED]
    try:
        group.allreduce_list(first)
    except trainrun.Unsupported as why:
        say(str(why))
        sys.exit(77)
    group.barrier()
    must_be("mean of a list", [value for tensor in first for value in tensor.values()], 3 * [(n - 1) / 2])
    sizes = [0, 1, 3, 255, 100003, 2] + [number % 5 for number in range(300)]
    for wire in LISTED:
        for op, before, after in (("sum", 1, 1), ("sum", 0.5, 4), ("max", 1, 1)):
            def of(rank, number):
                return [float((rank * 5 + number * 3 + i) % 17 - 8) for i in range(sizes[number])]
            tensors = [Tensor(of(me, number), LISTED[number % 3]) for number in range(len(sizes))]
            group.allreduce_list(tensors, op, wire=wire, before=before, after=after)
            group.barrier()
            combine, factor = (max, 1) if op == "max" else (sum, before * after)
            for number, tensor in enumerate(tensors):
                columns = zip(*(of(rank, number) for rank in range(n)))
                must_be(f"{op} of a list by {wire}", tensor.values(), [factor * combine(column) for column in columns])
    # f32 that bf16 and f16 have not: halfway to even, subnormal, infinite, no number.
    odd = [1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, 2**-25, 3 * 2**-25, 65519.0, 65520.0, float("inf")]
    for wire, expected in (("bfloat16", [1, 1 + 2**-6, 1 + 2**-7, 2**-25, 3 * 2**-25, 65536, 65536, float("inf")]),
                           ("float16", [1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8, 0, 2**-23, 65504, float("inf"), float("inf")])):
        tensor = Tensor(odd + [float("nan")])
        group.allreduce_list([tensor], "max", wire=wire)
        group.barrier()
        must_be(f"rounding to {wire}", tensor.values()[:-1], expected)
        must_be("what is no number", [str(tensor.values()[-1])], ["nan"])
    say(f"every list is right on {n} ranks")
    group.free()


def dies(world, device):
    """The last rank is killed; the others must hear who, while the device waits for it."""
    group = trainrun.nccl.group(world, device=device)
    tensor = Tensor([1.0] * 100000)
    for step in range(10**9):
        group.allreduce(tensor, "max")
        group.barrier()
        if step == 5 and world.rank == world.size - 1:
            os.kill(os.getpid(), signal.SIGKILL)


def elastic(steps):
    state = trainrun.elastic.State(step=0)

    def train(world):
        device = take_device(world.local_rank)
        group = trainrun.nccl.group(world, device=device)
        while state.step < steps:
            tensor = Tensor([1.0] * 1000)
            group.allreduce(tensor)
            group.barrier()
            must_be("sum", tensor.values(), [float(world.size)] * 1000)
            state.step += 1
            if state.step == steps // 2 and world.generation == 1 and world.rank == world.size - 1:
                os.kill(os.getpid(), signal.SIGKILL)
            state.commit()
        say(f"generation {world.generation} finished with {world.size}")

    trainrun.elastic.run(state, train)


def of_torch(world, device):
    import torch  # pylint: disable=import-outside-toplevel
    if not torch.cuda.is_available():
        say("torch has no CUDA here")
        sys.exit(77)
    torch.cuda.set_device(device)
    stream = torch.cuda.Stream()
    group = trainrun.nccl.group(world, device=device, stream=stream)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        with torch.cuda.stream(stream):
            tensor = torch.full((4096,), float(world.rank + 1), device="cuda", dtype=dtype) * 2
            group.allreduce(tensor)  # after the kernel before it, since both are on the stream
            result = tensor / 2
        group.barrier()
        must_be(f"sum of {dtype}", result.float().cpu().tolist(), [float(sum(range(1, world.size + 1)))] * 4096)
    say(f"torch {torch.__version__}: tensors by pointer are right on {world.size} ranks")
    group.free()


def main():
    mode, number = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0
    try:
        if mode == "elastic":
            elastic(number)
            return
        world = trainrun.init()
        device = take_device(world.local_rank)
        {"one": lambda: one(world, device, number), "ops": lambda: ops(world, device), "lists": lambda: lists(world, device), "dies": lambda: dies(world, device),
         "torch": lambda: of_torch(world, device)}[mode]()
        world.shutdown()
    except trainrun.Error as error:
        say(f"failed {type(error).__name__} culprit {error.culprit}: {error}")
        sys.exit(3)


if __name__ == "__main__":
    main()
