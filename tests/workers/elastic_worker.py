"""What elastic_worker.cc does, for the Python package: told by lines on stdin, tells in lines on stdout."""
import array
import sys

from trainrun import Error, elastic

weights = array.array("d", [0.0] * 3)
state = elastic.State(steps=0, note="")
state.buffer("weights", weights)
sampler = elastic.Sampler(11, seed=5)
state.sampler("sampler", sampler)
state.on_reset(lambda old, new: print("reset", old, new, flush=True))


def report(world, what):
    print(f"{what} generation {world.generation} rank {world.rank} of {world.size} steps {state.steps}"
          f" sum {weights[0]:g} note {state.note} sampler {sampler.epoch} {sampler.processed}", flush=True)


def obey(world):
    report(world, "formed")
    for line in sys.stdin:
        order = line.strip()
        if order == "step":
            weights[0] += world.allreduce(array.array("d", [1.0]))[0]
            sampler.record(len(sampler.next(3)))
            if sampler.done():
                sampler.next_epoch()
            state.steps += 1
            state.note = "after " + str(state.steps)
        elif order == "order":
            fresh = elastic.Sampler(11, seed=5)
            fresh.next_epoch()
            print("order", fresh.next(11), flush=True)
        elif order in ("commit", "save"):
            getattr(state, order)()
        elif order == "check":
            state.check_host_updates()
        elif order == "stop?":
            print("stop" if state.should_stop() else "stay", flush=True)
        elif order == "end":
            return "finished"
        report(world, order)
    raise RuntimeError("no more orders")


try:
    print(elastic.run(state, obey), flush=True)
except Error as error:
    print(f"failed {type(error).__name__}: {error}", flush=True)
    sys.exit(3)
except elastic.Removed:
    print("removed", flush=True)
    raise
