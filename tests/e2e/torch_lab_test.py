"""An unmodified PyTorch script with a checkpoint outlives a killed rank and a host without power."""
import importlib.util
import os
import re
import unittest

import harness
from elastic_lab import COMMON, ElasticLabTest

TRAIN = os.path.join(harness.ROOT, "examples/torch_ddp/train.py")
EPOCHS = 60


class Torch(ElasticLabTest):
    PROGRAM = "/usr/bin/python3 " + TRAIN  # as a process table shows it

    @classmethod
    def setUpClass(cls):
        if importlib.util.find_spec("torch") is None:
            raise unittest.SkipTest("/usr/bin/python3 has no torch (Debian's python3-torch)")
        super().setUpClass()

    def await_epoch(self, epoch):
        self.job.wait_for(rf"epoch +{epoch}/", timeout=150)

    def test_a_killed_rank_and_then_a_host_without_power(self):
        self.job = self.start(*COMMON[2:], "--min-np", 2, *self.POLICY, "-np", 3, "-H", "node1:1,node2:1,node3:1", "-x",
                              "OMP_NUM_THREADS=1", "/usr/bin/python3", TRAIN, "--epochs", EPOCHS, "--checkpoint",
                              self.folder + "/digits.pt")
        self.await_epoch(2)
        self.strike(self.workers_of("node2")[0])
        self.job.wait_for("going on after epoch .* on 3 ranks", timeout=150)
        self.lose("node3")
        self.job.wait_for("going on after epoch .* on 2 ranks", timeout=150)
        done = self.assertEnds(self.job.wait(150), 0)
        self.assertInOrder(done.err, "rank 1 on node2 was killed by SIGKILL", "generation 2: 3 ranks on 3 hosts",
                           r"node3 lost \(no answer", "generation 3: 2 ranks on 2 hosts",
                           r"3 generations; 2 restarts \(rank failed, host lost\)")
        self.assertGreaterEqual(float(re.search(r"held-out accuracy ([\d.]+)", done.out).group(1)), 95)


if __name__ == "__main__":
    harness.main()
