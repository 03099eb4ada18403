"""Rank 1 raises an exception that nobody catches; the others print what they hear of it: raising.py plain|elastic."""
import array
import sys

import trainrun
from trainrun import elastic


def train(world):
    world.barrier()
    if world.rank == 1:
        raise ValueError("no data")
    try:
        world.allreduce(array.array("i", [1]))
    except trainrun.Error as error:
        print("heard", type(error).__name__, error.culprit, flush=True)


if sys.argv[1] == "plain":
    train(trainrun.init())
else:
    elastic.run(elastic.State(), train)
