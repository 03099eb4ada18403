"""Hosts leave in good order, in each of the ways there are: ranks are told, have --grace to save, and it is no failure."""
import glob
import os
import re
import signal

from digits import Digits
from elastic_lab import ElasticLabTest
from harness import ROOT, WORKER, main

LEAVER = ROOT + "/tests/workers/leaver.py"
COMMON = ("--min-np", 2, "-np", 6, "--host-timeout", "2s", "--settle", "200ms", "--discovery-interval", "200ms")
# A budget of one restart, and long pauses: a leave that counted as a failure would show.
STRICT = ("--reset-limit", "1/1h", "--blacklist-cooldown-range", "1h", "1h")


class LeaveTest(ElasticLabTest):
    def setUp(self):
        super().setUp()
        self.write("hosts", "node1:2\nnode2:2\nnode3:2\n")

    def begin(self, *words):
        self.job = self.start(*COMMON, *STRICT, "--discover", f"file:{self.folder}/hosts", *words)
        self.await_world(1, 6)

    def await_world(self, generation, size):
        self.job.wait_for(rf"generation {generation}: rank \d+ of {size},", count=size)

    def saved(self, generation):
        """Hosts of the ranks that saved in that generation."""
        hosts = []
        for path in glob.glob(f"{self.folder}/saved.{generation}.*"):
            with open(path) as file:
                hosts.append(file.read())
        return sorted(hosts)

    def end(self, *said):
        done = self.assertEnds(self.job.wait(), 0)
        self.assertInOrder(done.err, *said)
        return done


class Plain(LeaveTest):
    """A program that knows nothing of this is restarted, so all its ranks are told."""
    PROGRAM = "/usr/bin/python3 " + LEAVER

    def leaver(self, number="USR1", seconds=1):
        return ("--on-failure", "restart-world", "/usr/bin/python3", LEAVER, self.folder, number, seconds)

    def test_one_host_after_the_other_and_then_a_real_failure(self):
        self.begin("--leave-signal", "USR1", "--grace", "20s", *self.leaver())
        self.ctl("remove", "node3")
        self.await_world(2, 4)
        self.assertEqual(self.saved(1), ["node1", "node1", "node2", "node2", "node3", "node3"])
        self.write("hosts", "node1:2\nnode3:2\n")
        self.await_world(3, 2)
        self.assertEqual(self.saved(2), ["node1", "node1", "node2", "node2"])
        for host in ("node2", "node3"):
            self.job.wait_until(lambda host=host: not self.new(host), f"nothing is left on {host}")
        self.strike(self.workers_of("node1")[0])  # the one restart that the budget has is still there
        self.await_world(4, 2)
        self.assertEqual(self.saved(3), [])
        self.finish()
        self.end("node3 leaves", "generation 2: 4 ranks on 2 hosts; node3 leaves",
                 "hosts no longer listed: node2", "generation 3: 2 ranks on 1 host; node2 left",
                 "killed by SIGKILL", "generation 4: 2 ranks on 1 host",
                 r"4 generations; 1 restart .*rank failed.*2 changes .hosts left 2x")

    def test_an_agent_that_is_told_by_its_host(self):
        """As by a notice of pre-emption: SIGUSR1, or SIGTERM, after which the agent goes in any case."""
        for number in (signal.SIGUSR1, signal.SIGTERM):
            with self.subTest(number=number):
                self.begin("--leave-signal", "USR2", "--grace", "20s", *self.leaver("USR2"))
                self.strike(self.agent("node2"), number)
                self.await_world(2, 4)
                self.assertEqual(len(self.saved(1)), 6)
                self.job.wait_until(lambda: not self.new("node2"), "nothing is left on node2")
                self.finish()
                self.end(f"node2 leaves: the agent got {number.name}", "generation 2: 4 ranks on 2 hosts; node2 leaves",
                         r"2 generations; 1 change .hosts left.$")
                for path in glob.glob(self.folder + "/saved.*") + [self.folder + "/finish"]:
                    os.remove(path)

    def test_ranks_that_do_not_listen_are_killed_after_the_grace(self):
        self.begin("--on-failure", "restart-world", "--leave-signal", "USR2", "--grace", "1s", "sh", "-c",
                   'echo "generation $TRAINRUN_GENERATION: rank $RANK of $WORLD_SIZE,"; '
                   f'[ $TRAINRUN_GENERATION = 2 ] || exec {WORKER} signals')
        self.job.wait_for("ready", count=6)
        self.ctl("remove", "node3")
        self.await_world(2, 4)
        done = self.end("6 ranks did not end within 1.0 s of .*: SIGKILL",
                        "generation 2: 4 ranks on 2 hosts; node3 leaves", r"2 generations; 1 change .hosts left.$")
        self.assertEqual(done.out.count("got USR2"), 6)


class InPlace(Digits, LeaveTest):
    """A program on comm hears of it at its next step, commits, and goes on without those that leave."""

    def await_world(self, generation, size):
        super().await_world(self.job, generation, size)

    def test_ranks_that_are_to_stop_commit_at_once_and_go(self):
        self.begin("--grace", "20s", *self.digits("--commit-every", 1000000, pace=40))
        stay = self.workers_of("node1") + self.workers_of("node2")
        self.ctl("remove", "node3")
        self.await_world(2, 4)
        self.job.wait_until(lambda: not self.new("node3"), "nothing is left on node3")
        self.strike(self.agent("node2"), signal.SIGTERM)
        self.await_world(3, 2)
        now = {(process.pid, process.started) for process in self.workers_of("node1")}
        self.assertEqual(now, {(process.pid, process.started) for process in stay[:2]}, "node1 keeps its processes")
        done = self.end("generation 2: 4 ranks on 2 hosts; node3 leaves .*; state kept by 4 survivors",
                        "generation 3: 2 ranks on 1 host; node2 leaves .*; state kept by 2 survivors",
                        r"3 generations; 2 changes .hosts left 2x.$")
        # Not one step is done again. (Once in a long while the end of an epoch, which commits too, is the first to hear.)
        begun = [set(re.findall(rf"generation {generation}: rank \d+ of \d+, epoch \d+, step (\d+)", done.out))
                 for generation in (2, 3)]
        self.assertEqual([len(steps) for steps in begun], [1, 1], str(done))
        commits = set(re.findall(r"2 ranks are to stop: a commit at step (\d+)", done.out))
        self.assertTrue(commits, str(done))
        self.assertLessEqual(commits, set.union(*begun))
        self.assertTrained(done)


if __name__ == "__main__":
    main()
