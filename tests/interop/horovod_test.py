#!/usr/bin/python3
"""Horovod 0.28.1 itself, built on Gloo, on one host and on two: under trainrun, and the same lines under horovodrun."""
import os
import re
import signal

from interop import LONG, InteropTest, harness
from environments import horovod_python, versions

LINE = r"rank (\d) of (\d), (\d) of (\d) here, (\d) of (\d) across: sum (\d), set (\d), 2\.00 x \+ 1\.00"
# Where: hosts in the words of both launchers, and the ranks of each host.
WORLDS = {"one host": ("node1:2", (2,)), "two hosts": ("node1:2,node2:2", (2, 2)), "unequal hosts": ("node1:1,node2:2", (1, 2))}


class Horovod(InteropTest):
    @classmethod
    def setUpClass(cls):
        cls.python = horovod_python()
        print("with", *versions(cls.python, "horovod", "torch"))
        super().setUpClass()

    def expected(self, hosts, rounds=1):
        size, rows = sum(hosts), []
        for rank, (host, slot) in enumerate((host, slot) for host, slots in enumerate(hosts) for slot in range(slots)):
            group = [other for other, slots in enumerate(hosts) if slots > slot]
            members = (0, size - 1) if size > 2 else (1,)
            row = (rank, size, slot, hosts[host], group.index(host), len(group), size, len(members) if rank in members else 0)
            rows += [tuple(map(str, row))] * rounds
        return sorted(rows)

    def words(self, hosts, rounds=1):
        return (self.python, self.program("horovod_train.py"), rounds, sum(hosts))

    def test_training(self):
        for name, (where, hosts) in WORLDS.items():
            with self.subTest(world=name):
                done = self.run_job("-x", "OMP_NUM_THREADS=1", "-H", where, *self.words(hosts), timeout=LONG)
                self.assertEnds(done, 0)
                self.assertEqual(sorted(re.findall(LINE, done.out)), self.expected(hosts), done)

    def test_init_after_shutdown(self):
        done = self.run_job("-x", "OMP_NUM_THREADS=1", "-H", "node1:1,node2:1", *self.words((1, 1), 2), timeout=LONG)
        self.assertEnds(done, 0)
        self.assertEqual(sorted(re.findall(LINE, done.out)), self.expected((1, 1), 2), done)

    def test_the_same_lines_under_horovodrun(self):
        """What the other tests ask of trainrun, its own launcher does as well: the programs are not at fault."""
        launcher = os.path.join(os.path.dirname(self.python), "horovodrun")
        interface = self.on("head", "ip -o -4 addr show scope global | awk '{print $2; exit}'").strip().split("@")[0]
        for name, (where, hosts) in WORLDS.items():
            with self.subTest(world=name):
                done = self.run_job("--gloo", "-np", sum(hosts), "-H", where, "--network-interface", interface,
                                    *self.words(hosts), program=launcher, timeout=LONG, env={"OMP_NUM_THREADS": "1"})
                self.assertEnds(done, 0)
                self.assertEqual(sorted(re.findall(LINE, done.out)), self.expected(hosts), done)

    def test_horovodruns_own_words(self):
        link = self.folder + "/horovodrun"
        os.symlink(harness.TRAINRUN, link)
        done = self.run_job("-np", 2, "-H", "node1:1,node2:1", "--gloo", "--fusion-threshold-mb", 1, "--cycle-time-ms", "0.5",
                            "--timeline-filename", self.folder + "/timeline.json", *self.words((1, 1)), program=link, timeout=LONG)
        self.assertEnds(done, 0)
        self.assertEqual(sorted(re.findall(LINE, done.out)), self.expected((1, 1)), done)
        self.assertTrue(os.path.getsize(self.folder + "/timeline.json") > 0)
        done = self.assertEnds(self.run_job("--check-build", self.python, program=link, timeout=LONG), 0)
        self.assertIn("Horovod v0.28.1:", done.out)
        self.assertIn("[X] Gloo", done.out)

    def test_a_killed_rank_starts_all_again(self):
        gate = self.folder + "/gate"
        job = self.start("--max-restarts", 1, "-x", "OMP_NUM_THREADS=1", "-H", "node1:1,node2:1", "sh", "-c",
                         f"test $TRAINRUN_RESTART_COUNT = 1 && touch {gate}; echo pid $$; "
                         f"test $RANK = 0 || until test -e {gate}; do sleep 0.1; done; "
                         f"exec {self.python} {self.program('horovod_train.py')} 1 2")
        lines = job.wait_for(r"^\[1\] pid \d+", timeout=LONG)
        job.wait_for(r"1 of 2 ranks wait in hvd.init; not there yet: rank 1 on node2", stream="err", timeout=LONG)
        self.on("node2", "kill -9 " + lines[0].split()[-1])
        done = self.assertEnds(job.wait(LONG), 0)
        self.assertEqual(sorted(re.findall(LINE, done.out)), self.expected((1, 1)), done)

    def test_an_interrupt_leaves_nothing(self):
        job = self.start("-x", "OMP_NUM_THREADS=1", "-H", "node1:1,node2:1", *self.words((1, 1), 1000))
        job.wait_for(LINE, timeout=LONG)
        job.signal(signal.SIGINT)
        self.assertEnds(job.wait(LONG), 130)


if __name__ == "__main__":
    harness.main()
