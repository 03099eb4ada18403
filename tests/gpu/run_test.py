#!/usr/bin/python3
"""tests/gpu/run itself, over libnccl_fake, which is no NCCL and has no GPU: that it runs its parts, and says when it cannot."""
import os
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
from harness import BUILD, main, without_blanks  # noqa: E402

FAKE = without_blanks(os.environ.get("TRAINRUN_NCCL_FAKE", os.path.dirname(BUILD) + "/lib/libnccl_fake.so"))


class FakeGpu(unittest.TestCase):
    def ran(self, rc, **env):
        done = subprocess.run([sys.executable, os.path.join(HERE, "run"), os.path.dirname(BUILD)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=280, check=False, env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0", **env})
        self.assertEqual(done.returncode, rc, done.stdout)
        return done.stdout

    def test_each_part_runs(self):
        out = self.ran(0, TRAINRUN_NCCL_LIB=FAKE, TRAINRUN_CUDA_LIB=FAKE)
        self.assertIn("no device, a fake (1)", out)
        self.assertEqual((out.count("\nran "), out.count("\nCOULD NOT ")), (6, 3), out)
        self.assertIn("lists of tensors, by kernels of this library: every list is right on 1 ranks; every list is right on 2 ranks", out)
        self.assertRegex(out, "the death of a rank: failed PeerLost culprit 1: .* was killed by SIGKILL")

    def test_a_part_that_fails_is_told(self):
        out = self.ran(1, TRAINRUN_NCCL_LIB=FAKE, TRAINRUN_CUDA_LIB=FAKE, NCCL_FAKE="0:init=fail")
        self.assertIn("\nFAILED     operations of one rank: exit code 3", out)

    def test_without_a_driver_nothing_ran(self):
        out = self.ran(77, TRAINRUN_NCCL_LIB=FAKE, TRAINRUN_CUDA_LIB="/no/such/driver")
        self.assertIn("SKIP: no GPU, so nothing ran: cuda: there is no CUDA driver", out)


if __name__ == "__main__":
    main()
