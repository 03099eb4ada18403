"""--preload on several hosts: each has one zygote, a spare one too, over all generations."""
import os

import harness
from lab_harness import SshTest

PYTHON = "/usr/bin/python3"
SCRIPT = """
import os, select, sys
print("up", os.environ["TRAINRUN_GENERATION"], os.environ["RANK"], "counted" in sys.modules, flush=True)
while not os.path.exists("end"): select.select([], [], [], 0.02)
"""


class TwoHostsAndASpare(SshTest):
    NODES = 3

    def zygotes(self, host):
        return [process for process in self.new(host) if process.command.startswith("trainrun-zygote")]

    def ranks(self, host):
        return [process for process in self.new(host) if process.command.startswith(PYTHON)]

    def test_a_killed_rank_and_the_same_zygotes(self):
        with open(self.folder + "/counted.py", "w") as file:
            file.write("open(__file__ + '.times', 'a').write('x')\n")
        with open(self.folder + "/script.py", "w") as file:
            file.write(SCRIPT)
        job = self.start("-np", 4, "-H", "node1:2,node2:2,node3:2", "--spares", 2, "--on-failure", "restart-world", "--preload",
                         "counted", "-x", "PYTHONPATH=" + self.folder, PYTHON, "script.py")
        job.wait_for("up 1 . True", count=4)
        for host in ("node1", "node2", "node3"):
            job.wait_until(lambda host=host: len(self.zygotes(host)) == 1, f"{host} has a zygote")
        before = {host: [process.pid for process in self.zygotes(host)] for host in ("node1", "node2", "node3")}
        harness.kill(self.ranks("node2")[0].outer)
        job.wait_for("up 2 . True", count=4)
        self.assertEqual({host: [process.pid for process in self.zygotes(host)] for host in before}, before)
        with open(self.folder + "/counted.py.times") as file:
            self.assertEqual(file.read(), "xxx")
        with open(self.folder + "/end", "w"):
            pass
        done = self.assertEnds(job.wait(), 0)
        self.assertQuietOn(done, "--preload:", "left behind")

    def test_kill_9_of_a_zygote_ends_no_rank(self):
        with open(self.folder + "/counted.py", "w"):
            pass
        with open(self.folder + "/script.py", "w") as file:
            file.write(SCRIPT)
        job = self.start("-np", 4, "-H", "node1:2,node2:2", "--preload", "counted", "-x", "PYTHONPATH=" + self.folder, PYTHON, "script.py")
        job.wait_for("up 1 . True", count=4)
        harness.kill(self.zygotes("node1")[0].outer)
        job.wait_for("node1: --preload: the process that ranks are forked from ended: was killed by SIGKILL", stream="err")
        with open(os.path.join(self.folder, "end"), "w"):
            pass
        self.assertEnds(job.wait(), 0)


if __name__ == "__main__":
    harness.main()
