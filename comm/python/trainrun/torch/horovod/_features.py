"""What programs ask before they choose: which libraries are in use. Answered as it is here: bytes move over memory of the
host, over Gloo between hosts, and over NCCL from GPU to GPU."""
import functools
import json

from trainrun import nccl
from trainrun.torch.horovod import _place


def gloo_built(verbose=False):
    return True


def gloo_enabled():
    return True


@functools.cache
def _host():
    return json.loads(nccl.describe_host(json=True))


def nccl_built(verbose=False):
    """Its version, as 22809 for 2.28.9; 0: operations on tensors of GPUs cannot be here."""
    if not cuda_built() or not _host()["nccl"]["usable"]:
        return 0
    major, minor, patch = map(int, _host()["nccl"]["version"].split("."))
    return major * 10000 + minor * 100 + patch


def cuda_built(verbose=False):
    """Whether there is a driver of CUDA."""
    return _host()["cuda"]["usable"]


def _no(verbose=False):
    """Not in trainrun."""
    return False


mpi_built = ddl_built = ccl_built = rocm_built = _no


def mpi_enabled():
    return False


def mpi_threads_supported():
    _place.place()
    return False
