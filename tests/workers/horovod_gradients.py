"""What programs of Horovod do with gradients between backward() and step(), and with what they keep, scale and send: ranks agree
afterwards. horovod_gradients.py VERB [ARGUMENT]"""
import gc
import os
import sys
import warnings

import torch
import trainrun
import trainrun.torch as hvd
from horovod_objects import refused  # beside this file
from torch import nn
from trainrun.torch.horovod import _join, _place

torch.set_num_threads(1)


class Slopes(nn.Module):
    """Its gradients are what each rank gives, in one bucket."""

    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(2))

    def backward(self, slope):
        (slope * (self.one.sum() + self.other.sum())).backward()

    def both(self):
        return torch.cat([self.one, self.other]).detach()


def made(**options):
    model = Slopes()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), named_parameters=model.named_parameters(), **options)
    return model, optimizer


MEAN = 0.5  # of the ranks' numbers: they are two


def stepped(model, optimizer, down):
    """A step of all ranks, by the mean of 1 and 2, from zero."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    optimizer.zero_grad()
    model.backward(1.0 + hvd.rank())
    optimizer.step()
    assert torch.equal(model.both(), torch.full((5,), -(1.0 + MEAN) * down)), model.both()


def moved():
    """Their memory may be exchanged, and whole modules go to another type and back."""
    model, optimizer = made()
    for change in ("data", "type", "none", "zeros"):
        optimizer.zero_grad()
        model.backward(1.0)
        optimizer.synchronize()
        if change == "data":
            for parameter in model.parameters():
                parameter.grad.data = parameter.grad.data.clamp(-1, 1)
        elif change == "type":
            model.double().float()
        with optimizer.skip_synchronize():
            optimizer.step()
        optimizer.zero_grad(set_to_none=change == "none")
        stepped(model, optimizer, 1)


def replaced():
    """What stands in p.grad when step() begins is replaced by what all ranks have given."""
    model, optimizer = made()
    for change in (lambda gradient: torch.nan_to_num(gradient), lambda _: torch.full((3,), 7.0), lambda _: None):
        with torch.no_grad():
            model.one.zero_()
        optimizer.zero_grad()
        model.backward(1.0 + hvd.rank())
        model.one.grad = change(model.one.grad)
        optimizer.step()
        assert torch.equal(model.one.detach(), torch.full((3,), -1.0 - MEAN)), model.one


def forgotten():
    """A step that is given up while its gradients are under way leaves nothing in the next one."""
    for give_up in (lambda optimizer: optimizer.load_state_dict(optimizer.state_dict()),
                    lambda optimizer: optimizer.set_backward_passes_per_step(1)):
        model, optimizer = made()
        if hvd.rank() == 1:
            hvd.barrier()  # rank 0 has computed the next ones, while those that it gave up wait for this rank's
        model.backward(1000.0)
        give_up(optimizer)
        optimizer.zero_grad()
        model.backward(1.0 + hvd.rank())
        if hvd.rank() == 0:
            hvd.barrier()
        optimizer.step()
        assert torch.equal(model.both(), torch.full((5,), -1.0 - MEAN)), model.both()
        stepped(model, optimizer, 1)


def added():
    """Whoever adds parameters later is told that they stay each rank's own."""
    model, optimizer = made()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(2))]})
    assert any("are not exchanged between ranks" in str(one.message) for one in said), said
    stepped(model, optimizer, 1)


def discarded():
    """The group of an optimizer that is gone on all ranks is given back with the next one; who joins does so in those that are left."""
    kept = []
    for round_ in range(20):
        model, optimizer = made()
        stepped(model, optimizer, 1)
        if round_ == 3 and hvd.rank() == 0:
            kept.append(optimizer)
        del model, optimizer
        gc.collect()
    model, optimizer = made()
    assert len(_join._groups) == 2, len(_join._groups)  # rank 0's and the last
    threads = len(os.listdir("/proc/self/task"))
    if hvd.rank() == 1:
        stepped(model, optimizer, 2 / 3)  # rank 0 gives zeros
    hvd.join()
    assert len(os.listdir("/proc/self/task")) <= threads + 3
    del kept
    gc.collect()
    model, optimizer = made()
    assert len(_join._groups) == 2, len(_join._groups)
    stepped(model, optimizer, 1)


def restored():
    """What was saved is put back as often as one likes."""
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def train():
        optimizer.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()

    train()
    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, batch=1)
    before = str([model.state_dict(), optimizer.state_dict()])
    for _ in range(3):
        train()
        state.batch = 2
        assert str([model.state_dict(), optimizer.state_dict()]) != before
        state.restore()
        assert str([model.state_dict(), optimizer.state_dict()]) == before and state.batch == 1


def chosen():
    """Whose state all take: of those that were members before, the one with the most commits; else the first with the most."""
    state = hvd.elastic.ObjectState(batch=0)
    for known, root in ((([False, 5], [True, 1]), 1), (([True, 1], [False, 5]), 0), (([True, 1], [True, 2]), 1), (([True, 3], [True, 3]), 0)):
        state._seasoned, state._commits = known[hvd.rank()]
        state._enter()
        assert state._root == root and state._commits == known[root][1], (known, state._root, state._commits)


def factors():
    rank, size = hvd.rank(), hvd.size()
    given = torch.ones(3)
    assert hvd.allreduce(given, op=hvd.Sum, prescale_factor=0.0, postscale_factor=0.0).tolist() == [0.0] * 3
    large = torch.tensor([1 << 54 if rank == 0 else 2])
    assert hvd.allreduce(large, op=hvd.Sum, prescale_factor=0.5).item() == (1 << 53) + 1
    for before, after in ((0.5, 1.0), (1.0, 0.5), (0.25, 4.0)):
        rows = torch.full((size, 2), 8.0, requires_grad=True)
        got = hvd.reducescatter(rows, op=hvd.Sum, prescale_factor=before, postscale_factor=after)
        assert got.tolist() == [[8.0 * size * before * after] * 2], got
        got.sum().backward()
        assert rows.grad.unique().tolist() == [size * before * after], rows.grad


def objects():
    """What cannot be packed, for whatever reason, is refused on all ranks."""
    rank = hvd.rank()
    turned = torch.tensor([1 + 2j]).conj()
    assert hvd.broadcast_object(turned if rank == 0 else None, 0).tolist() == [1 - 2j]
    assert hvd.broadcast_object(torch._neg_view(torch.ones(2)) if rank == 0 else None, 0).tolist() == [-1.0, -1.0]
    assert hvd.broadcast_object(torch.ones(1, requires_grad=True) if rank == 0 else None, 0).requires_grad
    refused(trainrun.Unsupported, "the object cannot travel: ValueError",
            lambda: hvd.broadcast_object(10**5000 if rank == 0 else None, 0))
    assert hvd.broadcast_object("next" if rank == 0 else None, 0) == "next"


def full_disk(folder):
    """A timeline that cannot be written ends, and the training does not."""
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        hvd.start_timeline(folder + "/full.json")
        for step in range(300):
            assert hvd.synchronize(hvd.allreduce_async(torch.ones(1), op=hvd.Sum, name=f"step {step}")).item() == hvd.size()
        assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == hvd.size()
        hvd.stop_timeline()
    path = folder + ("/full.json" if hvd.rank() == 0 else f"/full.{hvd.rank()}.json")
    words = [str(one.message) for one in said if "the timeline" in str(one.message)]
    assert len(words) == 1 and f"the timeline {path} ends here: " in words[0], words
    assert os.path.getsize(path) <= 8192


def handles():
    for ask in (hvd.poll, hvd.synchronize):
        refused(ValueError, "7 is no handle of an operation", lambda: ask(7))


def main():
    hvd.init()
    globals()[sys.argv[1]](*sys.argv[2:])
    print(f"rank {hvd.rank()}: {sys.argv[1]} is right over {_place.world().backend}", flush=True)


if __name__ == "__main__":
    main()
