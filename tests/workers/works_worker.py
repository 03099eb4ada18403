"""Operations that are started from Python, among four ranks; "ok RANK"."""
import array
import gc
import os
import threading
import time

import trainrun
from trainrun import _work

F32, MAX = 4, 3
world = trainrun.init()
rank, size = world.rank, world.size


def floats(count, value):
    made = array.array("f", [value]) * count
    return made, made.buffer_info()[0]


# Many at once, of which some are waited for, and of the rest the thread hears; what they need is kept until then.
done, told = threading.Event(), []
works, results = [], []
for i in range(100):
    memory, address = floats(1000, rank + i)
    results.append(memory)

    def finish(memory=memory, i=i):
        assert memory[999] == size - 1 + i
        told.append(i)
        if len(told) == 100:
            done.set()
    works.append(_work.Started(world._group, [_work.call(_work.ALLREDUCE, address, address, 1000, F32, MAX)], memory, finish))
for work in works[::2]:
    assert work.wait() and work.ended() and work.error() is None
del works, work
gc.collect()
assert done.wait(60), len(told)

# A call that waits comes after them; functions that come late are called at once.
memory, address = floats(1, rank)
work = _work.Started(world._group, [_work.call(_work.ALLREDUCE, address, address, 1, F32, MAX)])
_work.run(world._group, [_work.call(_work.BARRIER)])
assert memory[0] == size - 1
heard = []
work.wait()
work.then(heard.append)
assert heard == [None]

# What is called at an end may wait for another end, of a work that it starts or of one that was started before.
def barrier():
    return _work.Started(world._group, [_work.call(_work.BARRIER)])


def nested(depth):
    ended, inner = threading.Event(), []
    outer, before = barrier(), barrier()

    def called(error):
        heard_before = threading.Event()
        before.then(lambda _: heard_before.set())
        inner.append(error is None and heard_before.wait(60) and (depth == 1 or nested(depth - 1)))
        ended.set()
    outer.then(called)
    return ended.wait(60) and inner == [True]


for _ in range(20):
    assert nested(1) and nested(4)
# Those that were needed for it alone are gone, and every end is told of, once.
until = time.monotonic() + 60
while len([thread for thread in threading.enumerate() if thread.name == "trainrun-works"]) > 2:
    assert time.monotonic() < until, threading.enumerate()
    barrier().wait()
heard, last = [], threading.Event()
for i in range(50):
    barrier().then(lambda _, i=i: (heard.append(i), len(heard) == 50 and last.set()))
assert last.wait(60) and sorted(heard) == list(range(50)), heard

# Wrong ones say so, where they are started or where they are waited for.
for wrong in (_work.call(77), _work.call(_work.SEND, address, None, 1, F32, root=99), _work.call(_work.BROADCAST, None, None, 5, F32)):
    try:
        _work.Started(world._group, [wrong]).wait()
        raise AssertionError("not refused")
    except trainrun.Invalid:
        pass

# A wait has an end, and the work goes on.
if rank == 0:
    late = _work.Started(world._group, [_work.call(_work.BARRIER)])
    assert not late.wait(0.02) and not late.ended()
    for other in range(1, size):
        world.send(memory, other)
    assert late.wait(60)
else:
    world.receive(memory, 0)
    world.barrier()

# A forked child starts nothing.
child = os.fork()
if child == 0:
    try:
        _work.Started(world._group, [_work.call(_work.BARRIER)])
    except trainrun.Invalid:
        os._exit(7)
    os._exit(8)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
print(f"ok {rank}", flush=True)
world.shutdown()
