#!/usr/bin/python3
"""Random faults against an elastic script of the real Horovod, on three hosts: it goes on, and ends with its accuracy.

    horovod_soak.py [--seconds 60] [--faults 30] [--seed N]
"""
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../e2e"))

import harness  # noqa: E402
import soak  # noqa: E402
from environments import horovod_python, versions  # noqa: E402
from interop import LONG, InteropTest  # noqa: E402

EPOCHS = 30  # until it is trained
ACCURACY = r"held-out accuracy ([\d.]+) %"


class RealHorovod(soak.Horovod):
    NODES = 3
    STALL = 240  # each new rank loads torch, on a machine that may have other work
    PATIENCE = LONG
    MAY_REMAIN = InteropTest.MAY_REMAIN
    LIMITS = ("--min-np", 4, "--host-timeout", "5s", "--grace", "5s", "--settle", "500ms", "--hang-timeout", "60s")
    POLICY = ("-x", "HOROVOD_GLOO_TIMEOUT_SECONDS=5", "-x", "OMP_NUM_THREADS=1")

    @classmethod
    def setUpClass(cls):
        cls.PROGRAM = horovod_python()
        print("with", *versions(cls.PROGRAM, "horovod", "torch"))
        super().setUpClass()

    def digits(self, *words):
        return [self.PROGRAM, InteropTest.program("horovod_digits.py"), *words]

    def program(self):
        done = self.run_job("-x", "OMP_NUM_THREADS=1", "-H", "node1:2,node2:2,node3:2", *self.digits("--epochs", EPOCHS), timeout=LONG)
        self.usual = float(re.findall(ACCURACY, self.assertEnds(done, 0).out)[-1])
        print(f"undisturbed: {self.usual} %", flush=True)
        return self.digits("--pause", "0.1", "--stop-file", self.folder + "/end")

    def discovery(self):
        return "--host-discovery-script", f"test ! -e {self.folder}/fail && cat {self.folder}/hosts"

    def steps(self):
        return self.job.out.count(": held-out ")

    def all_serve(self):
        worlds = list(re.finditer(r"world of (\d): rank (\d)", self.job.out))[-self.size:]
        begun = {world[2] for world in worlds if world[1] == str(self.size)}
        return len(begun) == self.size and ": held-out " in self.job.out[worlds[-1].end():]

    def fault_rank_0_killed(self, _):
        pid, host = re.findall(r"rank 0, .* pid (\d+) on (\w+)", self.job.out)[-1]
        return self.strike_one(host, lambda at: [process for process in self.workers_of(at) if at == host and process.pid == int(pid)])

    def fault_discovery_fails(self, _):
        if "discovery" in self.away:
            return "it does already"
        self.write("fail", "")
        return self.mend_later("discovery", lambda: os.remove(self.folder + "/fail"), "works again")

    def conclude(self):
        """Those that began anew without a survivor have to learn it again."""
        self.job.wait_until(lambda: int(re.findall(r"epoch (\d+),", self.job.out)[-1]) > EPOCHS, "it is trained", LONG)
        done = super().conclude()
        ends = re.findall(f"end of rank .*{ACCURACY}", done.out)
        self.assertEqual(len(set(ends)), 1, "ranks disagree")
        self.assertGreater(float(ends[0]), self.usual - 1, "not as undisturbed")
        worlds = re.findall(r"generation \d+: .* ranks on .*", done.err)
        print(f"accuracy {ends[0]} %; {sum('state kept' in world for world in worlds)} of {len(worlds)} new worlds had survivors")
        return done


def load_tests(loader, _tests, _pattern):
    return loader.loadTestsFromTestCase(RealHorovod)


if __name__ == "__main__":
    sys.argv[1:] = []
    harness.main()
