"""The value of a future is what gloo's has, which programs take apart."""
import torch
import torch.distributed as dist

import trainrun.torch  # noqa: F401, the backend's name

dist.init_process_group("trainrun")
RANK, SIZE = dist.get_rank(), dist.get_world_size()
GLOO = dist.new_group(backend="gloo")


def parts():
    return [torch.zeros(2) for _ in range(SIZE)]


def own(rank=RANK):
    return torch.full((2,), float(rank))


OPERATIONS = {
    "all_reduce": lambda group: dist.all_reduce(own(), group=group, async_op=True),
    "reduce": lambda group: dist.reduce(own(), 0, group=group, async_op=True),
    "broadcast": lambda group: dist.broadcast(own(), 1, group=group, async_op=True),
    "all_gather": lambda group: dist.all_gather(parts(), own(), group=group, async_op=True),
    "gather": lambda group: dist.gather(own(), parts() if RANK == 0 else None, group=group, async_op=True),
    "scatter": lambda group: dist.scatter(own(), parts() if RANK == 0 else None, group=group, async_op=True),
    "all_to_all_single": lambda group: dist.all_to_all_single(torch.zeros(SIZE), torch.arange(float(SIZE)), group=group, async_op=True)}


def plain(value):
    return [plain(part) for part in value] if isinstance(value, (list, tuple)) else value.tolist()


for name, start in OPERATIONS.items():
    ours, theirs = (plain(start(group).get_future().wait()) for group in (None, GLOO))
    if name != "reduce" or RANK == 0:  # of the others gloo's says nothing
        assert ours == theirs, f"{name}: {ours}, gloo {theirs}"
print(f"rank {RANK} of {SIZE}: futures as gloo", flush=True)
dist.destroy_process_group()
