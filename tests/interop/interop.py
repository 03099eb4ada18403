"""What tests with frameworks of PyPI stand on: a lab of two hosts, and the programs of this folder."""
import os
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

    def every_world(self, *words, python, program, ranks=4):
        """The program on one host and on two; gives the results."""
        for where in (("-np", ranks), ("-H", f"node1:{ranks // 2},node2:{ranks // 2}")):
            with self.subTest(where=where):
                yield self.assertEnds(self.run_job(*where, *words, python, self.program(program), timeout=LONG), 0)
