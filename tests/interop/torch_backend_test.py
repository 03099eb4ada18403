#!/usr/bin/python3
"""torch.distributed on trainrun's backend: as gloo does it, operation by operation and step by step, and who has died."""
import os
import re

from interop import HERE, LONG, harness
from environments import python_with, versions

PACKAGES = ("torch", "numpy", "lightning", "accelerate", "transformers")  # as torch_test.py: one environment for both
LIBRARY = os.environ.get("TRAINRUN_COMM_RELEASE", harness.ROOT + "/build/release/lib/libtrainrun_comm.so.0")
SETTINGS = ("-x", "OMP_NUM_THREADS=1", "-x", "TRAINRUN_COMM_LIBRARY=" + harness.without_blanks(LIBRARY), "-x",
            "PYTHONPATH=" + harness.without_blanks(harness.ROOT + "/comm/python"), "-x", "PYTHONDONTWRITEBYTECODE=1")
PROGRAM = harness.without_blanks(os.path.join(HERE, "programs/torch_backend.py"))
ODD = harness.without_blanks(os.path.join(HERE, "programs/torch_backend_odd.py"))
GROUPS = harness.without_blanks(os.path.join(HERE, "programs/torch_backend_groups.py"))
FUTURES = harness.without_blanks(os.path.join(HERE, "programs/torch_futures.py"))


class TorchBackend(harness.LocalTest):
    @classmethod
    def setUpClass(cls):
        cls.python = python_with("torch", *PACKAGES)
        print("with", *versions(cls.python, "torch"))
        super().setUpClass()

    def environment(self, extra=None):
        return super().environment({"TORCHINDUCTOR_CACHE_DIR": self.folder + "/inductor", **(extra or {})})

    def program(self, ranks, *words):
        return self.run_job("-np", ranks, "--oversubscribe", "--preload", "torch", *SETTINGS, self.python, PROGRAM, *words, timeout=LONG)

    def test_every_operation_is_as_gloos(self):
        for ranks in (2, 3, 4):
            with self.subTest(ranks=ranks):
                done = self.assertEnds(self.program(ranks, "table"), 0)
                self.assertEqual(len(re.findall(rf"of {ranks}: \d\d\d as gloo; did not run: \[\]", done.out)), ranks, done)

    def test_who_calls_something_else_is_told_and_torchs_own_check_of_that_works(self):
        for settings in ((), ("-x", "TORCH_DISTRIBUTED_DEBUG=DETAIL")):
            done = self.assertEnds(self.run_job("-np", 2, *SETTINGS, *settings, self.python, ODD, timeout=LONG), 0)
            self.assertEqual(done.out.count("of 2: an operation of another shape was refused"), 2, done)

    def test_groups_that_all_have_destroyed_hold_nothing(self):
        for settings in ((), ("-x", "TRAINRUN_COMM_BACKEND=gloo")):
            done = self.assertEnds(self.run_job("-np", 3, *SETTINGS, *settings, self.python, GROUPS, timeout=LONG), 0)
            self.assertEqual(done.out.count("of 3: groups come and go"), 3, done)

    def test_values_of_futures_are_those_of_gloo(self):
        done = self.assertEnds(self.run_job("-np", 3, "--oversubscribe", *SETTINGS, self.python, FUTURES, timeout=LONG), 0)
        self.assertEqual(done.out.count("of 3: futures as gloo"), 3, done)

    def test_losses_are_those_of_gloo(self):
        done = self.assertEnds(self.program(2, "training"), 0)
        for kind in ("DDP", "FSDP2"):
            self.assertEqual(len(re.findall(f"of 2: {kind} as gloo, within", done.out)), 2, done)

    def test_what_stands_on_it(self):
        done = self.assertEnds(self.program(2, "layers", self.folder + "/checkpoint"), 0)
        self.assertEqual(done.out.count("of 2: DTensor, ZeRO and checkpoints"), 2, done)

    def test_tensors_of_devices_take_the_same_way(self):
        """Without a GPU, over groups of the host's memory: tests/gpu/run does it over NCCL."""
        fake = harness.without_blanks(harness.ROOT + "/tests/workers/fake_device.py")
        for words, told in (("table", r": \d\d\d as gloo; did not run: \[\]"), ("training", ": FSDP2 as gloo, within"), ("layers", ": DTensor, ZeRO and checkpoints")):
            with self.subTest(words=words):
                folder = (self.folder + "/checkpoint",) if words == "layers" else ()
                done = self.assertEnds(self.run_job("-np", 3, "--oversubscribe", *SETTINGS, self.python, fake, PROGRAM, words, *folder, timeout=LONG), 0)
                self.assertEqual(len(re.findall("of 3" + told, done.out)), 3, done)

    def test_a_lane_that_cannot_be_made_is_told(self):
        fake, program = (harness.without_blanks(path) for path in (harness.ROOT + "/tests/workers/fake_device.py", os.path.join(HERE, "programs/torch_lane.py")))
        done = self.assertEnds(self.run_job("-np", 1, *SETTINGS, self.python, fake, program, timeout=LONG), 0)
        self.assertIn("the failure was told", done.out, done)

    def test_a_death_is_told_by_rank(self):
        for how in ("plain", "future", "ddp", "group"):
            with self.subTest(how=how):
                done = self.program(3, "kill", how)
                self.assertEqual(sorted(re.findall(r"rank (\d): lost rank 1 on ", done.out)), ["0", "2"], done)


if __name__ == "__main__":
    harness.main()
