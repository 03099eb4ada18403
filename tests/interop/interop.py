"""What tests with frameworks of PyPI stand on: a lab of two hosts, and the programs of this folder."""
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../e2e"))

import harness  # noqa: E402
from lab_harness import SshTest  # noqa: E402

LONG = 300  # seconds: the deadline of a job that imports torch on a busy machine


class InteropTest(SshTest):
    NODES = 2
    # Frameworks leave caches and sockets that are theirs to clear up.
    MAY_REMAIN = SshTest.MAY_REMAIN + ("/tmp/", "/dev/shm/", os.path.expanduser("~"))

    @staticmethod
    def program(name):
        return harness.without_blanks(os.path.join(HERE, "programs", name))

    def in_every_world(self, *words, python, program, pattern):
        """Four ranks on one host and on two: each prints what `pattern` matches, with its rank."""
        for where in (("-np", 4), ("-H", "node1:2,node2:2")):
            with self.subTest(where=where):
                done = self.assertEnds(self.run_job(*where, *words, python, self.program(program), timeout=LONG), 0)
                self.assertEqual(sorted(re.findall(pattern, done.out)), ["0", "1", "2", "3"], done)
