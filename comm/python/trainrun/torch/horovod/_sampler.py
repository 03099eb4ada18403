"""hvd.elastic.ElasticSampler: an epoch that goes on where it was when the ranks are others."""
import math
import random

from torch.utils.data import Sampler

from trainrun.torch.horovod import _place


class ElasticSampler(Sampler):
    """As torch's DistributedSampler; what record_batch() was told is not seen again in the epoch. It belongs into the
    TorchState. set_epoch() is called at the end of an epoch."""

    def __init__(self, dataset, shuffle=True, seed=0):
        self.dataset, self.shuffle, self.seed = dataset, shuffle, seed
        self.epoch = self.processed_num = 0
        self.reset()

    def set_epoch(self, epoch):
        self.epoch, self.processed_num = epoch, 0
        self.reset()

    def record_batch(self, batch_idx, batch_size):
        """This rank has processed so many more, and each other one as many."""
        self.processed_num += batch_size * self.num_replicas

    @property
    def processed_indices(self):
        """Of the dataset, those that were seen in this epoch, by any rank."""
        return set(self._order[:self.processed_num])

    def state_dict(self):
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state_dict):
        self.epoch, self.processed_num = state_dict["epoch"], state_dict["processed_num"]
        self.reset()

    def reset(self):
        """Shares out what is left among the ranks of now."""
        self.num_replicas, self.rank = _place.size(), _place.rank()
        self._order = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(self._order)
        self.remaining_indices = self._order[self.processed_num:]
        self.num_samples = math.ceil(len(self.remaining_indices) / self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self):
        """Ranks get equal numbers: some samples at the end are used twice."""
        indices = self.remaining_indices
        filled = (indices * math.ceil(self.total_size / len(indices)))[:self.total_size] if indices else []
        return iter(filled[self.rank::self.num_replicas])

    def __len__(self):
        return self.num_samples
