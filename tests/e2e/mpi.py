"""The programs of the MPI tests, and what they need."""
import os
import unittest

from harness import BUILD, LocalTest, without_blanks

CLIENT = without_blanks(os.environ.get("TRAINRUN_PMI_CLIENT", BUILD + "/pmi_client"))
MPICH = os.environ.get("TRAINRUN_MPICH_WORKER", BUILD + "/mpich_worker")
# Hosts of a lab are one machine: UCX must not find that out.
BETWEEN_HOSTS = ("-x", "UCX_TLS=tcp,self", "-x", "UCX_WARN_UNUSED_ENV_VARS=n")


class MpiTest(LocalTest):
    """Jobs have no TMPDIR, as most users' have none: what MPI shares in memory is in the job's directory there. All of
    /dev/shm is looked at: run such tests alone (RUN_SERIAL)."""
    NOT_OURS = ()

    def environment(self, extra=None):
        return {name: value for name, value in super().environment(extra).items() if name != "TMPDIR" or name in (extra or {})}


def mpich():
    if not os.access(MPICH, os.X_OK):
        raise unittest.SkipTest("mpich_worker is not built: there is no mpicc.mpich (apt-get install libmpich-dev)")
    return without_blanks(MPICH)


def waiting(job, count, also=0):
    """Pids by rank of those that wait in a barrier, and of those that are ready to do something else."""
    lines = job.wait_for(r"^\[\d+\] (waiting|ready) \d+$", count=count + also)
    pids = {}
    for line in lines:
        tag, _, pid = line.split()
        pids[int(tag[1:-1])] = int(pid)
    return pids
