"""trainrun.torch.elastic with a torch that cannot form a process group anew: it says so, and what to do instead."""
import importlib.util
import os
import unittest

import harness

PYTHON = "/usr/bin/python3"
# Python has no sanitizer, so the library has none either.
LIBRARY = harness.ROOT + "/build/release/lib/libtrainrun_comm.so.0"


class OldTorch(harness.LocalTest):
    @classmethod
    def setUpClass(cls):
        if importlib.util.find_spec("torch") is None:
            raise unittest.SkipTest("/usr/bin/python3 has no torch (Debian's python3-torch)")
        if not os.path.exists(LIBRARY):
            raise unittest.SkipTest(f"{LIBRARY} is not built")
        super().setUpClass()

    def test_it_is_refused_with_the_other_ways(self):
        done = self.script("from trainrun.torch import elastic; elastic.init()")
        self.assertSays(done, r"Unsupported: torch 1\.13\S* cannot form a process group anew in place: it has no "
                        r"init_process_group\(enable_reconfigure=\); releases that were tried: 2\.15; "
                        r"try: trainrun --on-failure restart-world --preload auto")

    def test_nor_can_it_have_a_backend(self):
        done = self.script("import trainrun.torch, torch; torch.distributed.init_process_group('trainrun')")
        self.assertSays(done, r"Unsupported: torch 1\.13\S* cannot have the backend trainrun: it has no torch\._C\._distributed_c10d\.Backend; "
                        r"tested with 2\.15; try: init_process_group\(\"gloo\"\)")

    def script(self, text):
        done = self.run_job("-np", 2, "-x", "TRAINRUN_COMM_LIBRARY=" + harness.without_blanks(LIBRARY), "-x", "PYTHONPATH=" +
                            harness.without_blanks(harness.ROOT + "/comm/python"), "-x", "PYTHONDONTWRITEBYTECODE=1", PYTHON, "-c",
                            text, timeout=300)
        return self.assertEnds(done, 1)


if __name__ == "__main__":
    harness.main()
