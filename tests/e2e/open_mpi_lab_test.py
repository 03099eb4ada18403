#!/usr/bin/python3
"""Programs of Open MPI on two hosts with four ranks each, over ssh."""
import glob
import os
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

    def spoil(self, host, library):
        """Until the test ends, the library is none there."""
        for path in {os.path.realpath(path) for path in glob.glob("/usr/lib/*/" + library)}:
            self.on(host, f"mount --bind /etc/hostname {path}")
            self.addCleanup(self.on, host, f"umount {path}")

    def test_a_libpmix_that_is_none_is_found_before_anything_starts(self):
        program = open_mpi()
        self.spoil("node2", "libpmix.so.2")
        for words, code in (("--check-hosts",), 2), ((), 2):
            done = self.assertEnds(self.run_job(*words, *self.job(program, "hello")), code)
            self.assertRegex(done.out + done.err, r"node2: \S*libpmix\.so\.2\S*, by which ranks of Open MPI find each other, is no library")
            self.assertIn("--pmix-lib", done.out + done.err)
            self.assertNotIn("exec", done.err)

    def test_a_libmpi_that_is_none_is_found_by_a_check(self):
        program = open_mpi()
        self.assertIn("node2: ok", self.assertEnds(self.run_job("--check-hosts", *self.job(program)), 0).out)
        self.spoil("node2", "libmpi.so.40")
        done = self.assertEnds(self.run_job("--check-hosts", *self.job(program)), 127)
        self.assertIn("node1: ok", done.out)
        self.assertRegex(done.out, r"node2: .*ompi_worker.* is a program of Open MPI, and its library cannot be loaded: \S*libmpi\.so\.40\S*: no library")
        self.assertIn("LD_LIBRARY_PATH", done.out)

    def test_a_host_that_is_lost_ends_those_who_wait_for_it(self):
        job = self.start("--host-timeout", "2s", *self.job(client(), "first-without", 0))
        waiting(job, 7, 1)
        self.lab.cut("node2")
        self.addCleanup(self.lab.heal, "node2")
        self.assertSays(self.assertEnds(job.wait(), 69), "host node2 .* was lost")
        self.lab.heal("node2")


if __name__ == "__main__":
    harness.main()
