"""hvd.DistributedOptimizer on trainrun's collectives: its parameters after some steps beside those of one process that has the
batches of all ranks. horovod_optimizer.py VERB"""
import os
import sys
import warnings

import torch
import trainrun
import trainrun.torch as hvd
from torch import nn
from trainrun.torch.horovod import _place

torch.set_num_threads(1)
DEVICE = os.environ.get("COMM_TEST_DEVICE", "cpu")  # tests/gpu/run: "cuda"
if DEVICE != "cpu":
    torch.set_default_device(DEVICE)
STEPS, ROWS = 4, 6


class Net(nn.Module):
    """Two buckets: what is used last comes first, and with the middle it is more than the first may be."""

    def __init__(self):
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(8, 600), nn.Linear(600, 600), nn.Linear(600, 3)

    def forward(self, x):
        return self.last(torch.tanh(self.middle(torch.tanh(self.first(x)))))


def net(kind=Net):
    torch.manual_seed(5)
    return kind()


def batch(step, rank):
    generator = torch.Generator().manual_seed(100 * step + rank)
    return tuple(torch.randn(ROWS, columns, generator=generator, device="cpu").to(DEVICE) for columns in (8, 3))


def loss_of(model, step, ranks):
    """The mean over these ranks' batches, which have as many rows each."""
    inputs, targets = zip(*(batch(step, rank) for rank in ranks))
    return nn.functional.mse_loss(model(torch.cat(inputs)), torch.cat(targets))


def alone(make, steps=STEPS, ranks=None, kind=Net, scale=1.0):
    model = net(kind)
    optimizer = make(model.parameters())
    for step in range(steps):
        optimizer.zero_grad()
        (loss_of(model, step, range(hvd.size()) if ranks is None else ranks) * scale).backward()
        optimizer.step()
    return model


def same(model, wanted, what, bound=2e-5):
    for (name, ours), theirs in zip(model.named_parameters(), wanted.parameters()):
        assert torch.allclose(ours, theirs, rtol=bound, atol=bound), f"{what}: {name} differs by {(ours - theirs).abs().max()}"


def refused(kind, words, function):
    try:
        function()
    except kind as error:
        assert words in str(error), f"{words!r} is not in {str(error)!r}"
        return
    raise AssertionError(f"nothing was raised instead of {words!r}")


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def adam(parameters):
    return torch.optim.Adam(parameters, lr=0.01, eps=1e-2)  # with less it makes much of rounding


def trained(make, steps=STEPS, **options):
    model = net()
    optimizer = hvd.DistributedOptimizer(make(model.parameters()), named_parameters=model.named_parameters(), **options)
    for step in range(steps):
        optimizer.zero_grad()
        loss_of(model, step, [hvd.rank()]).backward()
        assert optimizer._next == len(optimizer._buckets), "the buckets were not sent while the backward pass went on"
        optimizer.step()
    return model, optimizer


def training():
    for make in (sgd, adam):
        model, optimizer = trained(make)
        same(model, alone(make), make.__name__)
        assert len(optimizer._buckets) == 2 and isinstance(optimizer, type(make(net().parameters())))
        for bucket in optimizer._buckets:
            for parameter in bucket.parameters:
                assert 0 <= parameter.grad.data_ptr() - bucket.flat.data_ptr() < 4 * bucket.flat.numel(), "a gradient was copied out of its bucket"
    same(trained(sgd, gradient_predivide_factor=3.0)[0], alone(sgd), "predivide")
    same(trained(sgd, op=hvd.Sum)[0], alone(sgd, scale=hvd.size()), "sum", 1e-3)
    for groups in (1, 2, 5):
        same(trained(sgd, groups=groups)[0], alone(sgd), f"{groups} groups")
    for compression in (hvd.Compression.fp16, hvd.Compression.bf16):
        same(trained(sgd, compression=compression)[0], alone(sgd), "compression", 2e-2)


class Halves(hvd.Compression.none):
    """A compressor of the program's own, which looks at shapes."""
    shapes = set()

    @classmethod
    def compress(cls, tensor):
        cls.shapes.add(tuple(tensor.shape))
        return tensor.to(torch.float64), None

    @staticmethod
    def decompress(tensor, _):
        return tensor.to(torch.float32)


def own_compressor():
    same(trained(sgd, compression=Halves)[0], alone(sgd), "a compressor of the program's")
    assert Halves.shapes == {tuple(parameter.shape) for parameter in net().parameters()}
    model = net()
    listed = [[model.last.bias, model.first.bias], [model.middle.weight]]
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), groups=listed)
    assert [len(bucket.parameters) for bucket in optimizer._buckets[:2]] == [2, 1]
    loss_of(model, 0, [hvd.rank()]).backward()
    optimizer.step()
    same(model, alone(sgd, 1), "groups that are listed")


def passes():
    """Two backward passes a step: their gradients are added up, as Horovod does."""
    model = net()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), backward_passes_per_step=2)
    wanted = net()
    reference = sgd(wanted.parameters())
    for step in range(3):
        optimizer.zero_grad()
        reference.zero_grad()
        for part in (0, 1):
            loss_of(model, 2 * step + part, [hvd.rank()]).backward()
            loss_of(wanted, 2 * step + part, range(hvd.size())).backward()
        optimizer.step()
        reference.step()
    same(model, wanted, "two passes")
    loss_of(model, 0, [hvd.rank()]).backward()
    refused(AssertionError, "optimizer.zero_grad() was called after loss.backward()", optimizer.zero_grad)
    optimizer.step()  # with what one pass has given
    optimizer.set_backward_passes_per_step(1)
    loss_of(model, 0, [hvd.rank()]).backward()
    refused(AssertionError, "Gradients were computed more than backward_passes_per_step times", loss_of(model, 0, [hvd.rank()]).backward)
    optimizer.synchronize()


class Branches(nn.Module):
    """Which part is used, and in which order gradients are computed, depends on the rank."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(8, 3, bias=False) for _ in range(4))
        self.large = nn.Linear(8, 40000)  # of a bucket of its own

    def order(self, rank):
        return [(rank + i) % 4 for i in range(4 if rank == 0 else 3)]  # all but rank 0 leave one out, each another

    def forward(self, x, rank):
        y, last = self.large(x)[:, :8], None
        for part in self.order(rank):
            last = self.parts[part](y)
            y = torch.tanh(torch.cat([last, y[:, 3:]], 1))
        return last


def unused():
    """No rank waits in vain where gradients come in different orders, or not at all; meanwhile the program does something else."""
    model, wanted = net(Branches), net(Branches)
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), named_parameters=model.named_parameters())
    reference = sgd(wanted.parameters())
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=step % 2 == 1)
        inputs, targets = batch(step, hvd.rank())
        loss = nn.functional.mse_loss(model(inputs, hvd.rank()), targets)
        loss.backward()
        sent = hvd.allgather_object(optimizer._next)
        assert sent == [2] + [1] * (hvd.size() - 1) or step == 0, sent
        mean = hvd.allreduce(loss.detach())  # between backward() and step(), where ranks have sent different buckets
        optimizer.step()
        reference.zero_grad()
        whole = sum(nn.functional.mse_loss(wanted(batch(step, rank)[0], rank), batch(step, rank)[1]) for rank in range(hvd.size())) / hvd.size()
        whole.backward()
        for parameter in wanted.parameters():
            parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        reference.step()
        assert torch.allclose(mean, whole.detach(), rtol=1e-4)
    same(model, wanted, "branches")


def clipping():
    """synchronize(), what changes gradients, and a step without another one."""
    model, wanted = net(), net()
    optimizer, reference = hvd.DistributedOptimizer(sgd(model.parameters())), sgd(wanted.parameters())
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, step, [hvd.rank()]).backward()
        optimizer.synchronize()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        with optimizer.skip_synchronize():
            optimizer.step()
        reference.zero_grad()
        loss_of(wanted, step, range(hvd.size())).backward()
        nn.utils.clip_grad_norm_(wanted.parameters(), 0.1)
        reference.step()
    same(model, wanted, "clipped")
    loss_of(model, 0, [hvd.rank()]).backward()
    optimizer.synchronize()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        optimizer.step()
    assert any("optimizer.step() called without optimizer.skip_synchronize()" in str(one.message) for one in said), said


def state():
    """Of an optimizer that has done steps already, and its schedulers."""
    model = net()
    plain = sgd(model.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(plain, 1, 0.5)
    loss_of(model, 0, range(hvd.size())).backward()
    plain.step()
    schedule.step()
    optimizer = hvd.DistributedOptimizer(plain, named_parameters=model.named_parameters())
    assert optimizer.param_groups[0]["lr"] == 0.05
    optimizer.zero_grad(set_to_none=True)
    loss_of(model, 1, [hvd.rank()]).backward()
    optimizer.step()
    schedule.step()
    assert optimizer.param_groups[0]["lr"] == 0.025
    wanted = net()
    reference = sgd(wanted.parameters())
    for step, rate in enumerate((0.1, 0.05)):
        reference.param_groups[0]["lr"] = rate
        reference.zero_grad()
        loss_of(wanted, step, range(hvd.size())).backward()
        reference.step()
    same(model, wanted, "state")
    saved = optimizer.state_dict()
    hvd.broadcast_optimizer_state(optimizer, 0)
    optimizer.load_state_dict(saved)


def in_a_set():
    ranks = [0, hvd.size() - 1]
    some = hvd.add_process_set(ranks)
    model = net()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), process_set=some)
    for step in range(2):
        optimizer.zero_grad()
        loss_of(model, step, [hvd.rank()]).backward()
        optimizer.step()
    same(model, alone(sgd, 2, ranks if some.included() else [hvd.rank()]), "in a process set")


def joined():
    """Ranks have different numbers of batches; who has none left gives zeros."""
    model, wanted = net(), net()
    optimizer, reference = hvd.DistributedOptimizer(sgd(model.parameters())), sgd(wanted.parameters())
    for step in range(3):
        if step <= hvd.rank():
            optimizer.zero_grad()
            loss_of(model, step, [hvd.rank()]).backward()
            optimizer.step()
            total = hvd.allreduce(torch.ones(3), op=hvd.Sum)
            assert total.tolist() == [hvd.size() - step] * 3, total
            hvd.barrier()
        reference.zero_grad()
        (sum(loss_of(wanted, step, [rank]) for rank in range(hvd.size()) if step <= rank) / hvd.size()).backward()
        reference.step()
    assert hvd.size() == 3
    last = hvd.join()
    assert last == 2, last
    hvd.broadcast_parameters(model.state_dict(), last)
    same(model, wanted, "joined")
    assert hvd.join() in range(3)
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == 3


def join_and_more():
    """What cannot go on without a rank tells all."""
    if hvd.rank() == 0:
        refused(trainrun.Mismatch, "join", hvd.join)
    else:
        refused(trainrun.Mismatch, "join", lambda: hvd.broadcast(torch.ones(3), 1))


def checks():
    model = net()
    names = list(model.named_parameters())

    def make(**options):
        return hvd.DistributedOptimizer(sgd(model.parameters()), **options)

    refused(ValueError, "named_parameters should be a sequence of tuples", lambda: make(named_parameters=model.parameters()))
    refused(ValueError, "Found duplicates: x", lambda: make(named_parameters=[("x", parameter) for _, parameter in names]))
    refused(ValueError, "one or more model parameters were not named. They are of these shapes: (600, 8)", lambda: make(named_parameters=names[1:]))
    refused(ValueError, "backward_passes_per_step must be > 0", lambda: make(backward_passes_per_step=0))
    refused(ValueError, "gradient_predivide_factor not supported with op != Average", lambda: make(op=hvd.Sum, gradient_predivide_factor=2.0))
    refused(ValueError, "groups should be a non-negative integer or a list", lambda: make(groups=-1))
    refused(ValueError, "groups must consist of torch.Tensor", lambda: make(groups=[[1]]))
    refused(ValueError, "A parameter can only appear once in groups", lambda: make(groups=[[names[0][1]], [names[0][1]]]))
    refused(trainrun.Unsupported, "hvd.Adasum is not in trainrun.torch", lambda: make(op=hvd.Adasum))

    embedding = nn.Embedding(5, 3, sparse=True)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(embedding.parameters(), lr=1.0))
    refused(trainrun.Unsupported, "the gradient of allreduce.noname.0.0 is sparse", embedding(torch.tensor([1])).sum().backward)
    embedding = nn.Embedding(5, 3, sparse=True)
    embedding.weight.data.zero_()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(embedding.parameters(), lr=1.0), sparse_as_dense=True)
    embedding(torch.tensor([hvd.rank()])).sum().backward()
    optimizer.step()
    assert torch.allclose(embedding.weight.data[:, 0], -torch.tensor([1.0 * (row < hvd.size()) for row in range(5)]) / hvd.size())

    other = nn.Linear(8, 3 + hvd.rank())
    refused(trainrun.Invalid, "the parameters of DistributedOptimizer differ: as number 0 in the order of their gradients, rank 0 has bias of shape "
            "(3,) and type torch.float32, rank 1 has bias of shape (4,)",
            lambda: hvd.DistributedOptimizer(sgd(other.parameters()), named_parameters=other.named_parameters()))


def main():
    hvd.init()
    for verb in sys.argv[1].split("+"):
        globals()[verb]()
    print(f"rank {hvd.rank()}: {sys.argv[1]} is right over {_place.world().backend}", flush=True)


if __name__ == "__main__":
    main()
