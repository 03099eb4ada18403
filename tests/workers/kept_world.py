"""Worlds that a program keeps for longer than they live, and a state that is used outside of any."""
import array
import sys

import trainrun
from trainrun import elastic

kept = []
state = elastic.State(step=0)


def refused(what, call):
    try:
        call()
        print(what, "done", flush=True)
    except trainrun.Invalid as error:
        print(what, "Invalid:", error, flush=True)


def train(world):
    kept.append(world)
    state.commit()
    print("in world", world.generation, flush=True)
    if world.generation == 1:
        if world.rank == 1:
            sys.stdin.readline()  # until it is killed
        world.allreduce(array.array("d", [1.0]))


refused("commit before", state.commit)
elastic.run(state, train)
for world in kept:
    print("kept", world.generation, "rank", world.rank, "of", world.size, world.backend, flush=True)
    refused("barrier", world.barrier)
refused("commit after", state.commit)
for seconds in (None, 0.0001, 90, 1e12, float("inf")):
    print("time", seconds, trainrun._library.options(seconds, None).op_timeout_ms, flush=True)
