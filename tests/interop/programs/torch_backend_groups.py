"""Groups of PyTorch on trainrun's backend that come and go: what all ranks have destroyed holds nothing, whatever was started in it."""
import os

import torch
import torch.distributed as dist

import trainrun.torch  # noqa: F401

ROUNDS = 16

dist.init_process_group("trainrun")
rank, size = dist.get_rank(), dist.get_world_size()
threads = []
for _ in range(ROUNDS):
    group = dist.new_group(list(range(size)))
    started = dist.all_reduce(torch.ones(4), group=group, async_op=True)
    pieces = [dist.P2POp(dist.isend, torch.ones(1), (rank + 1) % size, group), dist.P2POp(dist.irecv, torch.zeros(1), (rank - 1) % size, group)]
    for piece in dist.batch_isend_irecv(pieces):
        piece.wait()
    started.wait()
    dist.destroy_process_group(group)
    dist.barrier()
    threads.append(len(os.listdir("/proc/self/task")))
# A group has three; the last ones may still be on their way.
assert max(threads) - min(threads) < 3 * ROUNDS // 2, threads
print(f"rank {rank} of {size}: groups come and go", flush=True)
dist.destroy_process_group()
