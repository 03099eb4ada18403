#!/usr/bin/python3
"""`trainrun comm-info`: what programs on comm can use on this host."""
import json
import os
import unittest

from harness import BUILD, LocalTest, main, without_blanks

FAKE = without_blanks(os.environ.get("TRAINRUN_NCCL_FAKE", os.path.dirname(BUILD) + "/lib/libnccl_fake.so"))
WITH_FAKE = {"TRAINRUN_NCCL_LIB": FAKE, "TRAINRUN_CUDA_LIB": FAKE}
WITHOUT = {"TRAINRUN_NCCL_LIB": "/no/such/nccl", "TRAINRUN_CUDA_LIB": "/no/such/driver"}


class CommInfo(LocalTest):
    def told(self, env):
        done = self.assertEnds(self.run_job("comm-info", "--json", env=env), 0)
        self.assertEqual(done.err, "")
        return json.loads(done.out)

    def test_what_is_there(self):
        told = self.told(WITH_FAKE)
        self.assertEqual(told["backends"], ["shm", "hier", "gloo", "nccl", "local"])
        self.assertIn(told["cores"], range(1, len(os.sched_getaffinity(0)) + 1))
        self.assertIn(told["kernels"], ("plain", "avx2", "avx512"))
        self.assertTrue(told["shared_memory"]["usable"], told)
        self.assertEqual(told["nccl"], {"usable": True, "version": "2.28.9", "origin": "TRAINRUN_NCCL_LIB", "path": FAKE})
        self.assertEqual(told["cuda"]["version"], "13.0")
        kernels = told["cuda_kernels"]
        if kernels["built"]:
            self.assertEqual(kernels["ptx"].replace("compute_", "sm_"), kernels["machine_code"][-1])
        else:
            self.assertIn("TRAINRUN_CUDA=ON", kernels["why"])
        self.assertEqual(told["cuda"]["devices"], ["no device, a fake (0)", "no device, a fake (1)"])

    def test_what_is_not_there_is_said_with_the_reason(self):
        told = self.told(WITHOUT)
        self.assertFalse(told["nccl"]["usable"])
        self.assertRegex(told["nccl"]["why"], "^'/no/such/nccl' .TRAINRUN_NCCL_LIB.: .*No such file")
        self.assertRegex(told["cuda"]["why"], "^there is no CUDA driver: /no/such/driver: .*No such file")
        done = self.assertEnds(self.run_job("comm-info", env=WITHOUT), 0)
        self.assertRegex(done.out, r"(?m)^NCCL +none: '/no/such/nccl'")
        self.assertRegex(done.out, r"(?m)^CUDA +none: there is no CUDA driver")

    def test_a_driver_without_a_device(self):
        told = self.told({**WITH_FAKE, "NCCL_FAKE": "*:cuda=none"})
        self.assertRegex(told["cuda"]["why"], r"does not start: CUDA_ERROR_NO_DEVICE \(100\)$")

    def test_lines_for_people(self):
        done = self.assertEnds(self.run_job("comm-info", env=WITH_FAKE), 0)
        self.assertEqual([line.split("  ")[0] for line in done.out.splitlines()],
                         ["library", "backends", "processor", "shared memory", "NCCL", "CUDA", "CUDA kernels"])
        self.assertRegex(done.out, r"(?m)^CUDA kernels +(for sm_\d+(, sm_\d+)* and sm_(\d+), later ones by PTX of compute_\3|none: this library was built without .*)$")
        self.assertIn("driver for 13.0, 2 devices: no device, a fake (0) and no device, a fake (1)", done.out)

    def test_a_library_that_is_not_there_or_not_ours(self):
        done = self.assertEnds(self.run_job("comm-info", env={"TRAINRUN_COMM_LIBRARY": "/no/such/library"}), 127)
        self.assertSays(done, "comm-info: /no/such/library: .*No such file", "try: install the package")
        self.assertEqual(done.out, "")
        done = self.assertEnds(self.run_job("comm-info", env={"TRAINRUN_COMM_LIBRARY": FAKE}), 127)
        self.assertSays(done, "libnccl_fake.so' is of another version")

    def test_words(self):
        self.assertTrue(self.assertEnds(self.run_job("comm-info", "--help"), 0).out.startswith("usage: trainrun comm-info"))
        self.assertSays(self.assertEnds(self.run_job("comm-info", "--jsn"), 2), "no flag '--jsn'", "did you mean --json")
        self.assertEnds(self.run_job("comm-info", "what"), 2)


if __name__ == "__main__":
    main()
