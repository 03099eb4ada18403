"""What tests of MPI programs on two hosts share, whichever MPI it is."""
import signal

from lab_harness import SshTest


class TwoHosts(SshTest):
    NODES = 2
    BETWEEN_HOSTS = ()  # what an MPI is told, since hosts of a lab are one machine

    def job(self, *words):
        return ("-H", "node1:4,node2:4", *self.BETWEEN_HOSTS, *words)

    def kill(self, host, pid):
        self.on(host, f"kill -{int(signal.SIGKILL)} {pid}")
