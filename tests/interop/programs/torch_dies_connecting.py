"""An elastic rank of PyTorch whose peers die at the worst moment: rank 3 dies in a step of the first world, and rank 0, in the world
after it, when all have told Gloo's addresses and the others are connecting to it."""
import os
import signal
import threading

import torch
import torch.distributed as dist
from trainrun.torch import _store, elastic

get_key = _store.Store.get


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def get_and_die(store, key):
    value = get_key(store, key)
    if last_rank == 0 and key.endswith("/2"):  # the last of three
        threading.Event().wait(0.3)  # for the others to have read them all too
        die()
    return value


model = torch.nn.Linear(1, 1)
state = elastic.State(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), done=0)
last_rank = None
elastic.init()


@elastic.run
def train(state):
    global last_rank
    print(f"world of {dist.get_world_size()}: rank {dist.get_rank()} from step {state.done}", flush=True)
    is_first = last_rank is None and os.environ["TRAINRUN_GENERATION"] == "1"
    last_rank, _store.Store.get = dist.get_rank(), get_and_die if is_first else get_key
    while state.done < 60:
        dist.all_reduce(torch.ones(2))
        state.done += 1
        state.step()
        if state.done == 20 and last_rank == 3 and is_first:
            die()


train(state)
print("end", flush=True)
