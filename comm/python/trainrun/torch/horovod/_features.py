"""What programs ask before they choose: which libraries are in use. Answered as it is here: bytes move over memory of the
host, and over Gloo between hosts."""
from trainrun.torch.horovod import _place


def gloo_built(verbose=False):
    return True


def gloo_enabled():
    return True


def nccl_built(verbose=False):
    """0: hvd's operations are on tensors of the CPU."""
    return 0


def _no(verbose=False):
    """Not in trainrun."""
    return False


mpi_built = ddl_built = ccl_built = cuda_built = rocm_built = _no


def mpi_enabled():
    return False


def mpi_threads_supported():
    _place.place()
    return False
