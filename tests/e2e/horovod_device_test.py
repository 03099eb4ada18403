"""Horovod's API on tensors of GPUs, over libnccl_fake, which is no NCCL and has no GPU: the same programs as of the processor, whose
tensors are taken for a device's. tests/gpu/run does it on a GPU."""
import os
import re

import harness
from torch_jobs import WORKERS, TorchJobs

FAKE = harness.without_blanks(harness.ROOT + "/build/release/lib/libnccl_fake.so")
ON_DEVICE = ("-x", "TRAINRUN_NCCL_LIB=" + FAKE, "-x", "TRAINRUN_CUDA_LIB=" + FAKE)


class HorovodOnDevices(TorchJobs):
    @classmethod
    def setUpClass(cls):
        if not os.path.exists(FAKE):
            raise harness.unittest.SkipTest(f"{FAKE} is not built")
        super().setUpClass()

    def on_device(self, ranks, program, *words, options=()):
        return self.program(ranks, WORKERS + "fake_device.py", harness.without_blanks(WORKERS + program), *words, options=(*ON_DEVICE, *options))

    def right(self, ranks, program, verbs):
        done = self.assertEnds(self.on_device(ranks, program, verbs), 0)
        self.assertEqual(sorted(re.findall(rf"rank (\d): {re.escape(verbs)} (?:is|are) right", done.out)), [str(rank) for rank in range(ranks)], done)

    def test_operations(self):
        self.right(2, "horovod_api.py", "allreduces+grouped+moves+order")
        self.right(3, "horovod_api.py", "sets+gradients+sync_batch_norm+parameters+objects")

    def test_trainings(self):
        self.right(3, "horovod_optimizer.py", "training+own_compressor+passes+clipping+state+in_a_set")

    def test_first_uses_in_different_orders(self):
        self.right(3, "horovod_device.py", "orders")

    def test_types_that_nccl_has_not(self):
        self.right(2, "horovod_device.py", "types")

    def test_a_join_is_refused(self):
        done = self.on_device(2, "horovod_device.py", "join")
        self.assertEqual(done.out.count("hvd.join() is not for tensors of GPUs, which this group has reduced"), 2, done)

    def test_a_rank_that_dies_is_told_to_who_waits(self):
        done = self.on_device(3, "horovod_device.py", "dies", options=("--grace", 30))
        self.assertEqual(sorted(re.findall(r"rank (\d): lost rank 1 on ", done.out)), ["0", "2"], done)


if __name__ == "__main__":
    harness.main()
