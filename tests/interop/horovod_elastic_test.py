#!/usr/bin/python3
"""hvd.elastic of Horovod 0.28.1: ranks are killed, and the others go on with what they have trained."""
import re

from interop import LONG, InteropTest, harness
from environments import horovod_python, versions

WORLD = r"world of (\d): rank (\d), (\d) of \d here, \d of \d across, from step (\d+), pid (\d+)"
# Of a rank that waits for one that has gone on without it.
PATIENCE = ("-x", "HOROVOD_GLOO_TIMEOUT_SECONDS=5", "-x", "OMP_NUM_THREADS=1")


class HorovodElastic(InteropTest):
    @classmethod
    def setUpClass(cls):
        cls.python = horovod_python()
        print("with", *versions(cls.python, "horovod", "torch"))
        super().setUpClass()

    def begin(self, *words):
        self.job = self.start("--max-restarts", 3, *PATIENCE, *words, self.python, self.program("horovod_elastic.py"), self.folder, 3)
        return self.await_world(1, 3)

    def await_world(self, number, size):
        """Of its ranks: local rank, step, pid; and until it has trained. The worlds before it had as many ranks."""
        self.job.wait_for(WORLD, count=number * size, timeout=LONG)
        met = re.findall(WORLD, self.job.out)[(number - 1) * size:number * size]
        self.assertEqual(sorted(line[:2] for line in met), [(str(size), str(rank)) for rank in range(size)])
        self.assertEqual(len({line[3] for line in met}), 1, "ranks begin at different steps")
        self.job.wait_for(r"step \d+", count=len(re.findall(r"\] step \d+", self.job.out)) + 5, timeout=LONG)
        return {int(rank): (int(local), int(step), int(pid)) for _, rank, local, step, pid in met}

    def end(self, *said):
        self.on("node1", f"touch {self.folder}/end")
        done = self.assertEnds(self.job.wait(LONG), 0)
        self.assertEqual(len(re.findall(r"end of rank . of 3: 2\.00 x \+ 1\.00", done.out)), 3, done)
        self.assertSays(done, *said)

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
        self.end("rank 0 on node1 was killed by SIGKILL; the others go on without it", "state kept by 2 survivors")


if __name__ == "__main__":
    harness.main()
