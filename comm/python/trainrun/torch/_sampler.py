"""torch's DistributedSampler for a world that changes."""
import math

import torch
import torch.distributed as dist
from torch.utils.data import Sampler


class DistributedSampler(Sampler):
    """The order of an epoch depends on seed and epoch alone, and how far it has come is a part of the state: after a
    change of the world the rest is shared out anew. As with torch's, ranks get equal numbers: some samples at the end
    are used twice, or left out with drop_last. Its length is that of the pass that has begun, or begins next."""

    def __init__(self, dataset, shuffle=True, seed=0, drop_last=False):
        self._count, self._shuffle, self._seed, self._drop_last = len(dataset), shuffle, seed, drop_last
        self.epoch, self.processed = 0, 0
        self.begin()

    def begin(self):
        """The next pass is the first from here: in a new world, or epoch."""
        self._from, self._passed = self.processed, False

    def set_epoch(self, epoch):
        """An epoch that has begun goes on where it was."""
        if epoch != self.epoch:
            self.epoch, self.processed = epoch, 0
            self.begin()

    def record(self, samples):
        """This rank has processed so many, and each other one as many."""
        self.processed = min(self.processed + samples * dist.get_world_size(), self._count)

    def __len__(self):
        rest = self._count - self._from
        return rest // dist.get_world_size() if self._drop_last else math.ceil(rest / dist.get_world_size())

    def __iter__(self):
        self._from = self.processed
        if self._passed and not len(self):  # nobody has called set_epoch: the same once more, as with torch's
            self._from = self.processed = 0
        self._passed = True
        order = self._order()[self._from:]
        size, share = dist.get_world_size(), len(self)
        if not order or not share:
            return iter(())
        filled = (order * math.ceil(share * size / len(order)))[:share * size]
        return iter(filled[dist.get_rank()::size])

    def _order(self):
        if not self._shuffle:
            return list(range(self._count))
        generator = torch.Generator()
        generator.manual_seed(self._seed * 1000003 + self.epoch)
        return torch.randperm(self._count, generator=generator).tolist()

    def state_dict(self):
        return {"epoch": self.epoch, "processed": self.processed}

    def load_state_dict(self, state):
        self.epoch, self.processed = state["epoch"], state["processed"]
        self.begin()
