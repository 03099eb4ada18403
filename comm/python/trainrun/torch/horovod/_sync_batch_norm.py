"""Batch normalisation over the batches of all ranks together."""
import torch
from torch.nn.modules.batchnorm import _BatchNorm

from trainrun.torch.horovod import _place
from trainrun.torch.horovod._autograd import allreduce
from trainrun.torch.horovod._operations import Sum


class SyncBatchNorm(_BatchNorm):
    """In training, mean and variance are those of all ranks' inputs; else it is torch's. Inputs are (N, C, ...)."""

    def _check_input_dim(self, tensor):
        if tensor.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {tensor.dim()}D input)")

    def forward(self, tensor):
        self._check_input_dim(tensor)
        own_batch = self.training or not self.track_running_stats
        if not own_batch or _place.size() == 1:
            return super().forward(tensor)
        across = [0, *range(2, tensor.dim())]
        shape = [1, -1, *([1] * (tensor.dim() - 2))]
        own = tensor.numel() // tensor.shape[1]
        # A half has too few bits for sums and for counts, and the running numbers are single under autocast as well.
        wide = tensor.to(torch.promote_types(tensor.dtype, torch.float32))
        sums = allreduce(torch.cat([wide.sum(across), wide.new_tensor([float(own)])]), op=Sum, name="sync_batch_norm.mean")
        count = sums[-1].detach()
        if count == 1:
            raise ValueError("expected more than 1 value per channel on all ranks together when training, as torch does")
        mean = sums[:-1] / count
        centred = wide - mean.view(shape)
        variance = allreduce((centred * centred).sum(across), op=Sum, name="sync_batch_norm.variance") / count
        if self.training and self.track_running_stats:
            self._record(mean.detach(), variance.detach() * (count / (count - 1)))
        normal = centred * torch.rsqrt(variance + self.eps).view(shape)
        if self.affine:
            normal = torch.addcmul(self.bias.view(shape), normal, self.weight.view(shape))
        return normal.to(tensor.dtype)

    def _record(self, mean, variance):
        self.num_batches_tracked.add_(1)
        share = 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
        self.running_var.lerp_(variance.to(self.running_var.dtype), share)
