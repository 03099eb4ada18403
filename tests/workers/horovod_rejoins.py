"""Elastic programs of Horovod's API whose ranks do not all do the same. horovod_rejoins.py VERB, with 3 ranks

joins     rank 1 has half of the batches, and calls hvd.join() while rank 2 dies: in the next world it has none left
gives_up  rank 0 asks for a reset by itself, which the others hear at once
"""
import os
import signal
import sys

import torch
import trainrun.torch as hvd

torch.set_num_threads(1)
verb, first = sys.argv[1], os.environ["TRAINRUN_GENERATION"] == "1"
hvd.init()
model = torch.nn.Linear(2, 1)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), named_parameters=model.named_parameters())
state = hvd.elastic.TorchState(model=model, optimizer=optimizer, batch=0, root="a name like another")
resets = []


def step():
    optimizer.zero_grad()
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    state.batch += 1


@hvd.elastic.run
def joins(state):
    mine = 6 if hvd.rank() == 1 else 12
    while state.batch < mine:
        step()
        if state.batch <= 6:
            state.commit()
        if first and hvd.rank() == 2 and state.batch == 8:
            os.kill(os.getpid(), signal.SIGKILL)
    hvd.join()
    print(f"rank {hvd.rank()} of {hvd.size()} joined", flush=True)


@hvd.elastic.run
def gives_up(state):
    while state.batch < 6:
        step()
        state.commit()
        if state.batch == 3 and hvd.rank() == 0 and not resets:
            resets.append(1)
            raise hvd.HorovodInternalError("the loss is no number")
    print(f"rank {hvd.rank()} ends at {state.batch}, {state.root}", flush=True)


{"joins": joins, "gives_up": gives_up}[verb](state)
