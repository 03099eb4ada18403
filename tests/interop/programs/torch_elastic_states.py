"""What a State of trainrun.torch.elastic keeps, and what it refuses; verbs but the first with 3 ranks, of which one dies.

refuses  values that cannot travel, LBFGS; a sampler has one length in a pass, and begins again
resets   what a callback changes is given to a newcomer, too
differs  survivors that have different values take those of one
scales   a GradScaler whose gradients are unscaled already
"""
import os
import signal
import sys

import torch
import torch.distributed as dist
import trainrun
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from trainrun import elastic as plain
from trainrun.torch import elastic

torch.set_num_threads(1)
verb, first = sys.argv[1], os.environ["TRAINRUN_GENERATION"] == "1"
torch.manual_seed(0)
model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def say(*words):
    print(*words, flush=True)


def refused(kind, words, function):
    try:
        function()
    except kind as error:
        assert words in str(error), error
        return
    raise AssertionError(f"nothing was raised instead of {words!r}")


def refuses():
    sampler = elastic.DistributedSampler(range(20), shuffle=False)
    state = elastic.State(model=model, optimizer=optimizer, sampler=sampler, best=0)

    def train(state):
        loader = torch.utils.data.DataLoader(list(range(20)), batch_size=1, sampler=sampler)
        for epoch in range(2):  # without set_epoch()
            lengths, seen = set(), 0
            for batch in loader:
                lengths.add(len(loader))
                seen += len(batch)
                state.step(len(batch))
            assert lengths == {10} and seen == 10, (epoch, lengths, seen)
        sampler.set_epoch(1)
        assert len(loader) == 10
        refused(trainrun.Unsupported, "state['best'] is a builtins.object, which cannot travel", lambda: setattr(state, "best", object()))
        assert state.best == 0

    elastic.run(train, state)
    refused(trainrun.Invalid, "run() is once in a program", lambda: elastic.run(train, state))
    refused(trainrun.Unsupported, "state['bad'] is a builtins.object", lambda: elastic.State(bad=object()))
    refused(trainrun.Unsupported, "try: State(live=False, ...)", lambda: elastic.State(o=torch.optim.LBFGS(model.parameters())))
    elastic.State(live=False, o=torch.optim.LBFGS(model.parameters()))
    for value, why in (({1: 2}, "seen has the key 1, which would come back as a string"), ((1, 2), "seen is a tuple"),
                       ({"a": [{2: 1}]}, "seen['a'][0] has the key 2"), (object(), "seen is of type object, which JSON cannot say")):
        refused(trainrun.Invalid, why, lambda value=value: plain.State(seen=value))
    say("rank", os.environ["RANK"], "refuses")


def resets():
    state = elastic.State(model=model, optimizer=optimizer)

    def scale(_, size):
        for group in optimizer.param_groups:
            group["lr"] = 0.5 * size if first else 99.0

    state.on_reset(scale)

    def train(state):
        ddp = DistributedDataParallel(state.model)
        while state.steps < 6:
            optimizer.zero_grad()
            ddp(torch.ones(1, 2)).sum().backward()
            if first and dist.get_rank() == 2 and state.steps == 3:
                die()
            optimizer.step()
            state.step()
        say("rank", dist.get_rank(), "has", optimizer.param_groups[0]["lr"], [round(value, 4) for value in model.weight.flatten().tolist()])

    elastic.run(train, state)


def differs():
    state = elastic.State(model=model, optimizer=optimizer, rounds=torch.zeros(1))

    def train(state):
        if not first or state.world.generation > 1:
            say("rank", dist.get_rank(), "has", state.rounds.tolist())
            return
        dist.barrier()
        state.rounds = state.rounds + dist.get_rank()
        if dist.get_rank() == 2:
            die()
        dist.barrier()

    elastic.run(train, state)


def scales():
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    state = elastic.State(model=model, optimizer=optimizer, scaler=scaler)

    def train(state):
        ddp = DistributedDataParallel(state.model)
        while state.steps < 6:
            optimizer.zero_grad()
            scaler.scale(ddp(torch.ones(1, 2)).sum()).backward()
            scaler.unscale_(optimizer)
            if first and dist.get_rank() == 2 and state.steps == 3:
                die()
            dist.all_reduce(torch.ones(1))
            scaler.step(optimizer)
            scaler.update()
            state.step()
        say("rank", dist.get_rank(), "has", state.steps)

    elastic.run(train, state)


globals()[verb]()
