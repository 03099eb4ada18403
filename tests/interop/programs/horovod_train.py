"""A rank of Horovod, as scripts have it: an allreduce, a process set, a line fitted by DistributedOptimizer; and all of
it again after hvd.shutdown, ROUNDS times. Of who started it, it knows nothing but how many ranks there are."""
import sys

import horovod.torch as hvd
import torch


def fit():
    torch.manual_seed(hvd.rank())
    model = torch.nn.Linear(1, 1)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.5), named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    for _ in range(400):
        x = torch.rand(32, 1)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), 2 * x + 1).backward()
        optimizer.step()
    return model.weight.item(), model.bias.item()


rounds, size = map(int, sys.argv[1:3])
for _ in range(rounds):
    ends = hvd.ProcessSet([0, size - 1] if size > 2 else [1])  # a set of all is none to Horovod
    hvd.init(process_sets=[ends])
    everybody = int(hvd.allreduce(torch.ones(1), op=hvd.Sum).item())
    of_set = int(hvd.allreduce(torch.ones(1), op=hvd.Sum, process_set=ends).item()) if ends.included() else 0
    weight, bias = fit()
    print(f"rank {hvd.rank()} of {hvd.size()}, {hvd.local_rank()} of {hvd.local_size()} here, {hvd.cross_rank()} of "
          f"{hvd.cross_size()} across: sum {everybody}, set {of_set}, {weight:.2f} x + {bias:.2f}", flush=True)
    hvd.shutdown()
