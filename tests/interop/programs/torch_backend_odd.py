"""Ranks of PyTorch on trainrun's backend that do not call the same: told by torch, with TORCH_DISTRIBUTED_DEBUG=DETAIL, where
its own wrapper stands before the backend, or else by trainrun."""
import gc

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import trainrun
import trainrun.torch

dist.init_process_group("trainrun")
rank, size = dist.get_rank(), dist.get_world_size()
checked = dist.get_debug_level() == dist.DebugLevel.DETAIL
gc.collect()
total = torch.ones(3)
dist.all_reduce(total)
assert total.tolist() == [size] * 3
dist.barrier()
heard = [None] * size
dist.all_gather_object(heard, {"rank": rank})
assert [one["rank"] for one in heard] == list(range(size))
if rank < 2:  # not an operation of all ranks
    dist.send(total, 1) if rank == 0 else dist.recv(total, 0)
DistributedDataParallel(torch.nn.Linear(4, 2))(torch.randn(3, 4)).sum().backward()
dist.all_reduce(total, group=dist.new_group(range(size)))
assert trainrun.torch.failure() is None
try:
    dist.all_reduce(torch.ones(3 + rank))
except RuntimeError as error:
    if checked:
        assert "Detected mismatch between collectives" in str(error), error
    else:
        assert isinstance(error, trainrun.Mismatch) and isinstance(trainrun.torch.failure(), trainrun.Mismatch), error
    print(f"rank {rank} of {size}: an operation of another shape was refused", flush=True)
if checked:
    dist.destroy_process_group()
