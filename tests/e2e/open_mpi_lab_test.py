#!/usr/bin/python3
"""Programs of Open MPI on two hosts with four ranks each, over ssh."""
import re

import harness
from mpi_lab import TwoHosts
from open_mpi import BETWEEN_HOSTS, client, open_mpi, waiting


class OpenMpiOnTwoHosts(TwoHosts):
    BETWEEN_HOSTS = BETWEEN_HOSTS

    def test_ranks_meet(self):
        self.assertEnds(self.run_job(*self.job(client(), "meet", 3)), 0)
        self.assertEnds(self.run_job(*self.job("--map-by", "host", client(), "meet", 2)), 0)
        self.assertEnds(self.run_job(*self.job("--map-by", "host", client(), "half", 2)), 0)
        self.assertEnds(self.run_job(*self.job(client(), "half", 2)), 0)

    def test_a_rank_is_asked_where_it_is(self):
        self.assertEnds(self.run_job(*self.job(client(), "direct")), 0)

    def test_what_ranks_are_told(self):
        done = self.assertEnds(self.run_job(*self.job(client(), "tell")), 0)
        for line, count in (("pmix.num.nodes 2:32", 8), ("pmix.hname 'node2'", 4), ("pmix.lpeers '4,5,6,7'", 4),
                            ("pmix.nodeid 1:32", 4), ("pmix.local.size 4:32", 8)):
            self.assertEqual(done.out.count(line), count, (line, done))

    def test_conformance(self):
        done = self.assertEnds(self.run_job(*self.job(open_mpi(), "all", self.folder + "/file")), 0)
        self.assertEqual(len(re.findall(r"rank \d of 8: all is well", done.out)), 8, done)

    def test_abort(self):
        done = self.assertEnds(self.run_job(*self.job(open_mpi(), "abort", 5, 7)), 7)
        self.assertSays(done, "rank 5 on node2 called MPI_Abort with code 7")

    def test_one_is_killed_in_the_fence_before_init_and_in_finalize(self):
        for verb, victim, host in (("first-without 0", 6, "node2"), ("first-without 5", 5, "node2"),
                                   ("last-without 2", 2, "node1")):
            with self.subTest(verb=verb):
                job = self.start(*self.job(client(), *verb.split()))
                self.kill(host, waiting(job, 7, 1)[victim])
                self.assertSays(self.assertEnds(job.wait(), 137), f"rank {victim} on {host} was killed by SIGKILL")

    def test_one_that_leaves_is_to_blame_also_on_another_host(self):
        done = self.assertEnds(self.run_job(*self.job(client(), "leave", 0), feed=b"go\n"), 1)
        self.assertSays(done, "rank 0 on node1 exited with code 0 while other ranks waited for it in MPI")

    def test_the_helper_of_one_host_is_killed(self):
        job = self.start(*self.job(client(), "first-without", 0))
        waiting(job, 7, 1)
        self.on("node2", "kill -9 $(pgrep -x trainrun-pmix)")
        done = job.wait()
        self.assertNotEqual(done.rc, 0, done)
        self.assertSays(done, "the helper for PMIx on node2 was killed by SIGKILL")

    def test_a_host_that_is_lost_ends_those_who_wait_for_it(self):
        job = self.start("--host-timeout", "2s", *self.job(client(), "first-without", 0))
        waiting(job, 7, 1)
        self.lab.cut("node2")
        self.addCleanup(self.lab.heal, "node2")
        self.assertSays(self.assertEnds(job.wait(), 69), "host node2 .* was lost")
        self.lab.heal("node2")


if __name__ == "__main__":
    harness.main()
