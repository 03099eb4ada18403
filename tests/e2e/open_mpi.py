"""The programs of the tests of Open MPI, and what they need."""
import os
import unittest

from harness import BUILD, without_blanks
from mpi import waiting  # noqa: F401  (the two speak alike)

CLIENT = os.environ.get("TRAINRUN_PMIX_CLIENT", BUILD + "/pmix_client")
PROGRAM = os.environ.get("TRAINRUN_OMPI_WORKER", BUILD + "/ompi_worker")
# Hosts of a lab are one machine: UCX must not find that out.
BETWEEN_HOSTS = ("-x", "OMPI_MCA_pml=ob1", "-x", "OMPI_MCA_btl=self,vader,tcp", "-x", "OMPI_MCA_osc=^ucx")


def client():
    if not os.access(CLIENT, os.X_OK):
        raise unittest.SkipTest("pmix_client is not built: there is no libpmix-dev (apt-get install libpmix-dev)")
    return without_blanks(CLIENT)


def open_mpi():
    if not os.access(PROGRAM, os.X_OK):
        raise unittest.SkipTest("ompi_worker is not built: there is no mpicc.openmpi (apt-get install libopenmpi-dev)")
    return without_blanks(PROGRAM)
