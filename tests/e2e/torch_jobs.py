"""Jobs of /usr/bin/python3 with Debian's torch and the Python package of comm, for tests of `import trainrun.torch as hvd`."""
import importlib.util
import os
import re
import unittest

import harness

PYTHON = "/usr/bin/python3"
# Python has no sanitizer, so the library has none either.
LIBRARY = harness.ROOT + "/build/release/lib/libtrainrun_comm.so.0"
LONG = 300  # seconds: torch takes long to load where cores are few
WORKERS = harness.ROOT + "/tests/workers/"


class TorchJobs(harness.LocalTest):
    python = PYTHON

    @classmethod
    def setUpClass(cls):
        if importlib.util.find_spec("torch") is None:
            raise unittest.SkipTest("/usr/bin/python3 has no torch (Debian's python3-torch)")
        if not os.path.exists(LIBRARY):
            raise unittest.SkipTest(f"{LIBRARY} is not built")
        super().setUpClass()

    def words(self, ranks, program, *words, backend="auto", options=()):
        settings = ("TRAINRUN_COMM_LIBRARY=" + harness.without_blanks(LIBRARY), "PYTHONPATH=" + harness.without_blanks(harness.ROOT +
                    "/comm/python"), "PYTHONDONTWRITEBYTECODE=1", "OMP_NUM_THREADS=1", "TRAINRUN_COMM_BACKEND=" + backend)
        return ("-np", ranks, "--oversubscribe", "--preload", "torch", *options, *(word for one in settings for word in ("-x", one)), self.python,
                harness.without_blanks(program), *words)

    def program(self, ranks, program, *words, **more):
        return self.run_job(*self.words(ranks, program, *words, **more), timeout=LONG)

    def all_right(self, ranks, program, verb, backend="auto", over="shm"):
        """Each rank says that what it was asked for is right, over the backend that is expected."""
        done = self.assertEnds(self.program(ranks, WORKERS + program, verb, backend=backend), 0)
        self.assertEqual(sorted(re.findall(rf"rank (\d): {verb} is right over {over}", done.out)), [str(rank) for rank in range(ranks)], done)
