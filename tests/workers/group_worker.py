"""Every operation of the Python package among four ranks; "ok RANK"."""
import array

import trainrun

world = trainrun.init()
rank, size = world.rank, world.size


def floats(*values):
    return array.array("f", values)


assert world.allreduce(floats(rank), "sum", before=0.5, after=4)[0] == 2 * sum(range(size))
assert world.allreduce(array.array("i", [1 << rank]), "bor")[0] == (1 << size) - 1
assert world.allreduce(memoryview(bytearray([rank == 0])).cast("?"), "sum")[0] is True
halves = array.array("H", [0x3c00, 0x3800])  # 1 and 0.5
assert list(world.allreduce(halves, dtype="f16")) == [0x4400, 0x4000]
brains = array.array("H", [0x3f80, 0x4000])  # 1 and 2
assert list(world.allreduce(brains, "prod", dtype="bf16")) == [0x3f80, 0x3f80 + (size << 7)]
assert world.allreduce(floats(2), "product")[0] == world.allreduce(floats(2), "prod")[0] == 2**size
reduced = world.reduce(floats(rank), root=1, op="max")
assert reduced[0] == (size - 1 if rank == 1 else rank)
assert world.reduce_scatter(floats(*range(size)), floats(0))[0] == size * rank
assert list(world.allgather(floats(rank), floats(*[0] * size))) == list(range(size))
lengths = list(range(size))
uneven = world.allgatherv(floats(*[rank] * rank), floats(*[0] * sum(lengths)), lengths)
assert list(uneven) == [other for other in range(size) for _ in range(other)]
gathered = world.gather(floats(rank), floats(*[0] * size) if rank == 2 else None, root=2)
assert rank != 2 or list(gathered) == list(range(size))
assert world.scatter(floats(*range(size)) if rank == 3 else None, floats(-1), root=3)[0] == rank
assert list(world.alltoall(floats(*[rank] * size), floats(*[0] * size))) == list(range(size))
counts = [(rank + other) % 2 for other in range(size)]  # the same the other way round
exchanged = world.alltoallv(floats(*[rank] * sum(counts)), counts, floats(*[0] * sum(counts)), counts)
assert list(exchanged) == [other for other in range(size) if (rank + other) % 2]
if rank == 0:
    world.send(floats(7, 8), 3)
elif rank == 3:
    assert list(world.receive(floats(0, 0), 0)) == [7, 8]
inner = world.group([3, 1])
assert (inner is None) == (rank not in (1, 3))
if inner:
    assert (inner.rank, inner.size) == (rank // 2, 2)
    assert inner.allreduce(floats(rank))[0] == 4
    inner.free()
    for use in (inner.free, inner.barrier, lambda: inner.allreduce(floats(rank))):
        try:
            use()
            raise AssertionError("a group that was freed can be used")
        except trainrun.Invalid as error:
            assert str(error) == "the group was freed", error
for wrong in (lambda: world.group([0, 0]), lambda: world.allreduce(floats(1), "bor"), lambda: world.send(floats(1), rank)):
    try:
        wrong()
        raise AssertionError("not refused")
    except trainrun.Invalid:
        pass
for wrong in (lambda: world.alltoall(floats(1), floats(1)), lambda: world.scatter(floats(1), floats(1, 2), root=rank)):
    try:
        wrong()
        raise AssertionError("not refused")
    except ValueError:
        pass
for wrong, kind, words in ((lambda: world.allreduce(floats(1), "average"), ValueError, "op 'average' is none of sum, mean, "),
                           (lambda: world.allgather(floats(1), array.array("d", [0] * size)), ValueError,
                            "out has 4 elements of f64, not 4 of f32"),
                           (lambda: world.allreduce([1.0]), TypeError, "a list has no memory of numbers; try: numpy.array(...)")):
    try:
        wrong()
        raise AssertionError("not refused")
    except kind as error:
        assert str(error).startswith(words), error
world.barrier()
print("ok", rank, flush=True)
world.shutdown()
