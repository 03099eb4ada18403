"""What trainrun has for programs of PyTorch.

    import trainrun.torch
    torch.distributed.init_process_group("trainrun")    # trainrun's collectives, where "gloo" was written

    import trainrun.torch as hvd                        # where "import horovod.torch as hvd" was written
    hvd.init()

What fails raises trainrun.PeerLost and its like, which are RuntimeErrors. Where torch waits in C++, as DDP does, it passes on
their words alone, in a RuntimeError of its own: failure() is the exception then.

trainrun.torch.elastic is a process group over torch's own Gloo that outlives its ranks, and what hvd.elastic is in Horovod.
trainrun-horovod(7) says what of Horovod's API is here, and what is refused.
"""
import importlib

from trainrun._library import WorldFailed as HorovodInternalError
from trainrun.torch import _register
from trainrun.torch._register import failure
from trainrun.torch.horovod._autograd import (allgather, allreduce, allreduce_, alltoall, broadcast, broadcast_, grouped_allgather,
                                              grouped_allreduce, grouped_allreduce_, grouped_reducescatter, reducescatter)
from trainrun.torch.horovod._compression import Compression
from trainrun.torch.horovod._features import (ccl_built, cuda_built, ddl_built, gloo_built, gloo_enabled, mpi_built, mpi_enabled,
                                              mpi_threads_supported, nccl_built, rocm_built)
from trainrun.torch.horovod._join import join
from trainrun.torch.horovod._objects import allgather_object, broadcast_object, broadcast_optimizer_state, broadcast_parameters
from trainrun.torch.horovod._operations import (Adasum, Average, Max, Min, Product, Sum, allgather_async, allreduce_async,
                                                allreduce_async_, alltoall_async, barrier, broadcast_async, broadcast_async_,
                                                grouped_allgather_async, grouped_allreduce_async, grouped_allreduce_async_,
                                                grouped_reducescatter_async, poll, reducescatter_async, sparse_allreduce_async,
                                                synchronize)
from trainrun.torch.horovod._optimizer import DistributedOptimizer
from trainrun.torch.horovod._place import (cross_rank, cross_size, init, is_homogeneous, is_initialized, local_rank, local_size, rank,
                                           shutdown, size)
from trainrun.torch.horovod._sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from trainrun.torch.horovod._sync_batch_norm import SyncBatchNorm
from trainrun.torch.horovod._timeline import start_timeline, stop_timeline

__all__ = ["Adasum", "Average", "Compression", "DistributedOptimizer", "HorovodInternalError", "Max", "Min", "ProcessSet", "Product", "Sum", "SyncBatchNorm",
           "add_process_set", "allgather", "allgather_async", "allgather_object", "allreduce", "allreduce_", "allreduce_async",
           "allreduce_async_", "alltoall", "alltoall_async", "barrier", "broadcast", "broadcast_", "broadcast_async",
           "broadcast_async_", "broadcast_object", "broadcast_optimizer_state", "broadcast_parameters", "ccl_built", "cross_rank",
           "cross_size", "cuda_built", "ddl_built", "elastic", "failure", "global_process_set", "gloo_built", "gloo_enabled",
           "grouped_allgather", "grouped_allgather_async", "grouped_allreduce", "grouped_allreduce_", "grouped_allreduce_async",
           "grouped_allreduce_async_", "grouped_reducescatter", "grouped_reducescatter_async", "init", "is_homogeneous",
           "is_initialized", "join", "local_rank", "local_size", "mpi_built", "mpi_enabled", "mpi_threads_supported", "nccl_built", "poll",
           "rank", "reducescatter", "reducescatter_async", "remove_process_set", "rocm_built", "shutdown", "size",
           "sparse_allreduce_async", "start_timeline", "stop_timeline", "synchronize"]

_register.register()


def __getattr__(name):
    if name == "elastic":  # it is not needed by most, and looks for parts of torch that old ones lack
        return importlib.import_module("trainrun.torch.elastic")
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(f"trainrun.torch has no {name}: trainrun-horovod(7) says what of Horovod's API is here")
