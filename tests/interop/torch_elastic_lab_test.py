#!/usr/bin/python3
"""examples/torch_elastic on three hosts with two ranks each, under the faults of e2e/in_place_lab_test.py: no digit is lost."""
import re
import signal

from interop import LONG, InteropTest, harness
from environments import python_with, versions
from torch_elastic_test import PACKAGES, SETTINGS

from elastic_lab import ElasticLabTest  # noqa: E402  (of tests/e2e, which interop has put into the path)

TRAIN = harness.without_blanks(harness.ROOT + "/examples/torch_elastic/train.py")
EPOCHS = 6


class Digits(ElasticLabTest):
    MAY_REMAIN = InteropTest.MAY_REMAIN

    @classmethod
    def setUpClass(cls):
        cls.python = python_with("torch", *PACKAGES)
        cls.PROGRAM = cls.python + " " + TRAIN  # as a process table shows it
        print("with", *versions(cls.python, "torch"))
        super().setUpClass()

    def begin(self, *words, pace=0.05, size=6, hosts=("--min-np", 4, "-np", 6, "-H", "node1:2,node2:2,node3:2")):
        self.job = self.start("--host-timeout", "2s", "--grace", "1s", "--settle", "200ms", "--preload", "torch", *words, *hosts,
                              *SETTINGS, self.python, TRAIN, "--epochs", EPOCHS, "--pace", pace)
        self.await_world(1, size)
        self.job.wait_for(rf"epoch +1/{EPOCHS}", timeout=LONG)
        self.first = {host: self.workers_of(host) for host in self.lab.hosts}

    def await_world(self, generation, size):
        self.job.wait_for(rf"generation {generation}: rank \d of {size},", count=size, timeout=LONG)

    def assertKept(self, *hosts, but=()):
        for host in hosts:
            now = {(process.pid, process.started) for process in self.workers_of(host)}
            for process in self.first[host]:
                if process not in but:
                    self.assertIn((process.pid, process.started), now, f"{process} of {host} has not survived")

    def end(self, *said):
        done = self.assertEnds(self.job.wait(LONG), 0)
        self.assertInOrder(done.err, *said)
        self.assertEqual(set(re.findall(r"digits never used: (\d+)", done.out)), {"0"}, done)
        found = re.findall(r"held-out accuracy ([\d.]+) %", done.out)
        self.assertEqual(len(found), 1, done)
        self.assertGreaterEqual(float(found[0]), 90, "six epochs give about 94")
        self.assertQuietOn(done, "Traceback")

    def test_a_worker_killed_by_force(self):
        self.begin()
        victim = self.first["node2"][0]
        self.strike(victim)
        self.await_world(2, 5)
        self.await_world(3, 6)
        self.assertKept("node1", "node2", "node3", but=[victim])
        self.end(r"rank [23] on node2 was killed by SIGKILL; the others go on",
                 "generation 2: 5 ranks on 3 hosts; state kept by 5 survivors",
                 "generation 3: 6 ranks on 3 hosts; rank 5 on node2 is ready")

    def test_an_agent_killed_by_force(self):
        self.begin()
        self.strike(self.agent("node2"))
        self.await_world(2, 4)
        self.assertKept("node1", "node3")
        self.end("node2 lost .*the others go on", "generation 2: 4 ranks on 2 hosts; state kept by 4")

    def test_the_host_of_rank_0_without_power(self):
        self.begin()
        self.lose("node1")
        self.await_world(2, 4)
        self.assertKept("node2", "node3")
        self.end(r"node1 lost \(no answer for", "generation 2: 4 ranks on 2 hosts; state kept by 4")

    def test_a_worker_that_is_stopped(self):
        self.begin("--hang-timeout", "15s")
        victim = self.first["node3"][0]
        self.strike(victim, signal.SIGSTOP)
        self.await_world(2, 5)
        self.await_world(3, 6)
        self.assertKept("node1", "node2", "node3", but=[victim])
        self.end("no sign of life", "generation 2: 5 ranks on 3 hosts; state kept by 5 survivors", "generation 3: 6 ranks")

    def test_one_host_becomes_three_and_gives_way(self):
        self.begin(pace=0.2, size=2, hosts=("-H", "node1:2", "--min-np", 2, "--max-np", 6))
        for generation, size, host in ((2, 4, "node2"), (3, 6, "node3")):
            self.ctl("add", host + ":2")
            self.await_world(generation, size)
        self.assertKept("node1")
        self.ctl("remove", "node1")
        self.await_world(4, 4)
        self.end("generation 2: 4 ranks on 2 hosts; node2 came; state kept by 2 survivors",
                 "generation 3: 6 ranks on 3 hosts; node3 came; state kept by 4 survivors",
                 "generation 4: 4 ranks on 2 hosts; node1 leaves")

    def test_a_cut_cable_that_is_mended(self):
        self.begin("--blacklist-cooldown-range", "1s", "2s", "--settle", "10s", pace=0.3)  # longer than the imports on node2
        self.lab.cut("node2")
        self.addCleanup(self.lab.heal, "node2")
        self.await_world(2, 4)
        self.assertEndsOn("node2", self.first["node2"], "the workers of generation 1, by themselves,")
        self.lab.heal("node2")
        self.await_world(3, 6)
        self.assertKept("node1", "node3")
        self.end(r"node2 lost \(no answer for", "generation 2: 4 ranks on 2 hosts",
                 "generation 3: 6 ranks on 3 hosts; node2 came; state kept by 4 survivors")


if __name__ == "__main__":
    harness.main()
