#!/usr/bin/python3
"""hvd.elastic of Horovod 0.28.1: ranks and hosts are killed, come and go, and the others go on with what they have trained."""
import os
import re

from interop import LONG, InteropTest, harness
from environments import horovod_python, versions

WORLD = r"world of (\d): rank (\d), (\d) of \d here, \d of \d across, from step (\d+), pid (\d+)"
# Gloo's time-out, for which a rank that waits for one that has gone on would stand still: nobody does.
PATIENCE = ("-x", "HOROVOD_GLOO_TIMEOUT_SECONDS=300", "-x", "OMP_NUM_THREADS=1")


class ElasticTest(InteropTest):
    NODES = 3

    @classmethod
    def setUpClass(cls):
        cls.python = horovod_python()
        print("with", *versions(cls.python, "horovod", "torch"))
        super().setUpClass()

    def train(self, *words):
        self.job = self.start(*PATIENCE, *words, self.python, self.program("horovod_elastic.py"), self.folder, 3)

    def end(self, *said, size=3):
        self.on("head", f"touch {self.folder}/end")
        done = self.assertEnds(self.job.wait(LONG), 0)
        self.assertEqual(len(re.findall(rf"end of rank . of {size}: 2\.00 x \+ 1\.00", done.out)), size, done)
        self.assertSays(done, *said)
        return done


class Deaths(ElasticTest):
    """Of ranks."""

    def begin(self, *words):
        self.train("--max-restarts", 3, *words)
        return self.await_world(1, 3)

    def await_world(self, number, size):
        """Of its ranks: local rank, step, pid; and until it has trained. The worlds before it had as many ranks."""
        self.job.wait_for(WORLD, count=number * size, timeout=LONG)
        met = re.findall(WORLD, self.job.out)[(number - 1) * size:number * size]
        self.assertEqual(sorted(line[:2] for line in met), [(str(size), str(rank)) for rank in range(size)])
        self.assertEqual(len({line[3] for line in met}), 1, "ranks begin at different steps")
        self.job.wait_for(r"step \d+", count=len(re.findall(r"\] step \d+", self.job.out)) + 5, timeout=LONG)
        return {int(rank): (int(local), int(step), int(pid)) for _, rank, local, step, pid in met}

    def test_a_rank_and_then_rank_0_is_killed_on_one_host(self):
        first = self.begin("-H", "node1:3")
        self.on("node1", f"kill -9 {first[1][2]}")
        second = self.await_world(2, 3)
        for rank in (0, 2):
            self.assertEqual((first[rank][0], first[rank][2]), (second[rank][0], second[rank][2]), "survivors are as they were")
        self.assertGreater(second[0][1], 0)
        self.on("node1", f"kill -9 {second[0][2]}")
        third = self.await_world(3, 3)
        self.assertGreaterEqual(third[0][1], second[0][1], "rank 0 has survived, and what was trained with it")
        self.end("state kept by 2 survivors", "2 restarts")

    def test_rank_0_is_killed_on_the_first_of_two_hosts(self):
        first = self.begin("-H", "node1:2,node2:1")
        self.on("node1", f"kill -9 {first[0][2]}")
        second = self.await_world(2, 3)
        self.assertEqual(len({pid for _, _, pid in first.values()} & {pid for _, _, pid in second.values()}), 2, self.job.err)
        self.assertGreater(second[0][1], 0)
        self.end("rank 0 on node1 was killed by SIGKILL; the others wait for another in its place", "state kept by 2 survivors")


class Changes(ElasticTest):
    """Of the hosts, while ranks train."""

    def world_of(self, size, number=1):
        """The `number`th of its size: of its ranks, step and pid; and until it has trained."""
        self.job.wait_for(f"world of {size}: rank", count=size * number, timeout=LONG)
        met = [line for line in re.findall(WORLD, self.job.out) if line[0] == str(size)][-size:]
        self.assertEqual(sorted(line[1] for line in met), [str(rank) for rank in range(size)])
        self.job.wait_for(r"step \d+", count=len(re.findall(r"\] step \d+", self.job.out)) + 5, timeout=LONG)
        return {int(rank): (int(step), int(pid)) for _, rank, _, step, pid in met}

    def list_hosts(self, *hosts):
        with open(self.folder + "/hosts.new", "w", encoding="ascii") as file:
            file.write("".join(host + "\n" for host in hosts))
        os.rename(self.folder + "/hosts.new", self.folder + "/hosts")

    def test_a_discovery_lists_more_hosts_and_then_not_rank_0s(self):
        """The script fails in between, which changes nothing."""
        self.list_hosts("node1:1", "node2:1")
        script = f"test ! -e {self.folder}/fail && cat {self.folder}/hosts"
        self.train("-np", 2, "--min-np", 1, "--max-np", 3, "--reset-limit", 0, "--settle", "200ms", "--host-discovery-script", script)
        first = self.world_of(2)
        self.on("head", f"touch {self.folder}/fail")
        self.job.wait_for("discovery", stream="err", timeout=LONG)
        self.list_hosts("node1:1", "node2:1", "node3:1")
        self.on("head", f"rm {self.folder}/fail")
        second = self.world_of(3)
        self.assertEqual([first[rank][1] for rank in (0, 1)], [second[rank][1] for rank in (0, 1)], "survivors keep their process")
        self.assertGreater(second[2][0], first[0][0], "the newcomer has the state of the others")
        self.list_hosts("node2:1", "node3:1")
        third = self.world_of(2, 2)
        self.assertEqual([third[0][1], third[1][1]], [second[1][1], second[2][1]], "rank 0 has survived")
        self.assertGreater(third[0][0], second[0][0])
        self.end("generation 2: 3 ranks on 3 hosts; .*state kept by 2 survivors",
                 "generation 3: 2 ranks on 2 hosts; .*state kept by 2 survivors", size=2)

    def test_a_reset_limit_counts_failures_alone(self):
        self.list_hosts("node1:1")
        self.train("-np", 1, "--min-np", 1, "--max-np", 2, "--reset-limit", 0, "--settle", "200ms", "--discover", f"file:{self.folder}/hosts")
        self.world_of(1)
        self.list_hosts("node1:1", "node2:1")
        second = self.world_of(2)
        self.on("node2", f"kill -9 {second[1][1]}")
        done = self.assertEnds(self.job.wait(LONG), 137)
        self.assertSays(done, "rank 1 on node2 was killed by SIGKILL")

    def test_a_host_that_is_lost_and_comes_back(self):
        self.lose_and_find("node3")

    def test_rank_0s_host_is_lost_and_comes_back(self):
        self.lose_and_find("node1")

    def lose_and_find(self, lost):
        self.train("-H", "node1:1,node2:1,node3:1", "--min-np", 2, "--max-restarts", 3, "--host-timeout", "3s",
                   "--blacklist-cooldown-range", 1, 2)
        first = self.world_of(3)
        self.before[lost], self.files_before[lost] = set(), None
        self.lab.kill(lost, power=True)
        second = self.world_of(2)
        survivors = {pid for _, pid in second.values()}
        self.assertLess(survivors, {pid for _, pid in first.values()})
        self.lab.revive(lost)
        self.before[lost] = {(process.pid, process.started) for process in self.lab.processes(lost) if "/usr/sbin/sshd -f" in process.command}
        third = self.world_of(3, 2)
        self.assertLess(survivors, {pid for _, pid in third.values()}, "survivors keep their process")
        self.assertIn(third[0][1], survivors, "rank 0 has survived")
        self.assertGreater(third[2][0], 0, "the newcomer has the state of the others")
        self.end("state kept by 2 survivors", "1 restart ")


if __name__ == "__main__":
    harness.main()
