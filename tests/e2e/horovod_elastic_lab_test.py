#!/usr/bin/python3
"""Hosts come and go while ranks that speak Horovod's bytes train on others: rank 0 is told through its host's Link."""
import re
import signal

from elastic_lab import ElasticLabTest
from harness import ROOT, main, without_blanks

PYTHON = "/usr/bin/python3"
RANK = without_blanks(ROOT + "/tests/workers/horovod_elastic.py")
WORLD = r"world of (\d): rank (\d), (\d) of \d here, from step (\d+), pid (\d+)"
# No failure is paid for, and the grace is long: neither is used.
COMMON = ("--compat", "horovod", "-np", 2, "--min-np", 1, "--max-np", 3, "--reset-limit", "0", "--grace", "60s", "--settle", "200ms",
          "--host-timeout", "2s")


class Notices(ElasticLabTest):
    PROGRAM = PYTHON

    def begin(self, *words):
        self.job = self.start(*COMMON, *words, PYTHON, RANK, self.folder)
        return self.world_of(2)

    def world_of(self, size, number=1):
        """The `number`th world of this size: of its ranks, by rank, step and pid."""
        self.job.wait_for(f"world of {size}: rank", count=size * number)
        met = [line for line in re.findall(WORLD, self.job.out) if line[0] == str(size)][-size:]
        self.assertEqual(sorted(line[1] for line in met), [str(rank) for rank in range(size)])
        self.assertEqual(len({line[3] for line in met}), 1, "ranks begin at different steps")
        return {int(rank): (int(step), int(pid)) for _, rank, _, step, pid in met}

    def end(self, size, *said):
        self.on("head", f"touch {self.folder}/end")
        done = self.assertEnds(self.job.wait(), 0)
        self.assertEqual(len(re.findall(f"end of rank . of {size}", done.out)), size, done)
        self.assertInOrder(done.err, *said)
        self.assertNotIn("could not be told", done.err)

    def test_the_user_adds_a_host_and_removes_rank_0s(self):
        first = self.begin("-H", "node1:1,node2:1")
        self.ctl("add", "node3:1")
        self.job.wait_for("rank 0 was told: 2")
        second = self.world_of(3)
        self.assertEqual([first[0][1], first[1][1]], [second[0][1], second[1][1]], "survivors keep their process")
        self.ctl("remove", "node1")
        self.job.wait_for("rank 0 was told: 3")
        third = self.world_of(2, 2)
        self.assertEqual([third[0][1], third[1][1]], [second[1][1], second[2][1]], "rank 0 has survived")
        self.assertGreaterEqual(third[0][0], second[0][0])
        self.assertEndsOn("node1", self.new("node1"), "the ranks of the host that left")
        self.end(2, "generation 2: 3 ranks on 3 hosts; .*state kept by 2 survivors",
                 "generation 3: 2 ranks on 2 hosts; .*state kept by 2 survivors")

    def test_a_discovery_lists_more_hosts_and_then_fewer(self):
        self.write("hosts", "node1:1\nnode2:1\n")
        first = self.begin("--discovery-interval", "200ms", "--discover", f"file:{self.folder}/hosts")
        self.write("hosts", "node1:1\nnode2:1\nnode3:1\n")
        second = self.world_of(3)
        self.write("hosts", "node1:1\nnode3:1\n")
        third = self.world_of(2, 2)
        self.assertEqual([third[0][1], third[1][1]], [first[0][1], second[2][1]])
        self.assertEqual(re.findall(r"rank 0 was told: (\d)", self.job.out), ["2", "3"])
        self.end(2, "generation 2: 3 ranks on 3 hosts", "generation 3: 2 ranks on 2 hosts; .*state kept by 2 survivors")

    def test_a_host_says_that_it_will_go(self):
        first = self.begin("-H", "node1:1,node2:1")
        self.strike(self.agent("node2"), signal.SIGUSR1)
        self.job.wait_for("rank 0 was told: 3")
        second = self.world_of(1)
        self.assertEqual(second[0][1], first[0][1])
        self.end(1, "generation 2: 1 rank on 1 host; .*state kept by 1 survivor")


if __name__ == "__main__":
    main()
