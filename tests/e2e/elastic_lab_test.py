"""Any plug may be pulled: jobs of 3 hosts with 2 ranks each go on after every kind of death, and leave nothing."""
import signal

from elastic_lab import COMMON, ElasticLabTest
from harness import WORKER, main

class Restart(ElasticLabTest):
    """An unmodified program: all ranks start anew from its own checkpoint."""

    def test_a_worker_killed_by_force(self):
        self.begin()
        self.strike(self.workers_of("node2")[0])
        self.await_generation(self.job, 2, 6)
        self.end([0, 1], r"rank [23] on node2 was killed by SIGKILL; restarting all ranks",
                 "generation 2: 6 ranks on 3 hosts", r"1 restart .*rank failed")

    def test_a_worker_that_exits_with_1(self):
        self.job = self.start(*COMMON, *self.POLICY, "-np", 6, "-H", "node1:2,node2:2,node3:2", WORKER, "before", 2, "on", 3,
                              "exit", 1, "--", *self.train()[1:], "then", *self.train()[1:])
        self.await_generation(self.job, 2, 6)
        self.finish()
        done = self.assertEnds(self.job.wait(), 0)
        self.assertInOrder(done.err, "rank 3 on node2 exited with code 1", "generation 2: 6 ranks on 3 hosts",
                           r"1 restart .*rank failed")

    def test_a_worker_that_is_stopped(self):
        self.begin("--hang-timeout", "2s")
        stopped = self.workers_of("node3")
        self.strike(stopped[0], signal.SIGSTOP)
        self.await_generation(self.job, 2, 6)
        self.assertEndsOn("node3", stopped, "the workers of generation 1")
        self.end([0, 1], "no sign of life", r"rank \d on node3: state T", "generation 2: 6 ranks on 3 hosts", r"hung")

    def test_an_agent_killed_by_force(self):
        self.begin()
        old = self.workers_of("node2")
        self.strike(self.agent("node2"))
        self.await_generation(self.job, 2, 4)
        self.assertEndsOn("node2", old, "the workers of the dead agent")
        self.end([0, 1], r"node2 lost \(its agent", "generation 2: 4 ranks on 2 hosts", "host lost")

    def test_an_agent_and_its_watcher_killed_at_once(self):
        """Nobody is left there to clear up; the next agent of the job does it."""
        self.begin("--blacklist-cooldown-range", "1s", "2s", wrapper=("sh", "-c", f'{WORKER} daemon 0; exec "$@"', "sh"))
        agent = self.agent("node2")
        watcher = next(process for process in self.new("node2") if process.pid == agent.ppid)
        daemons = [process for process in self.new("node2") if process.command == WORKER + " daemon 0"]
        self.assertEqual(len(daemons), 2)
        directory = self.on("node2", "ls -d /dev/shm/trainrun.*").strip()
        self.strike(watcher, signal.SIGSTOP)
        self.strike(agent)
        self.strike(watcher)
        self.await_generation(self.job, 3, 6)
        self.assertEndsOn("node2", daemons, "the daemons of generation 1")
        self.assertNotIn(directory, self.on("node2", "ls -d /dev/shm/trainrun.*").split())
        self.end([0, 1, 1], r"node2 lost", "generation 2: 4 ranks on 2 hosts",
                 "node2: cleaned up what an earlier agent of this job left here: its directory and 2 processes",
                 "generation 3: 6 ranks on 3 hosts")

    def test_an_agent_that_stands_still(self):
        self.begin()
        old = self.workers_of("node2") + [self.agent("node2")]
        self.strike(old[-1], signal.SIGSTOP)
        self.await_generation(self.job, 2, 4)
        self.assertEndsOn("node2", old, "the frozen agent and its workers")
        self.end([0, 1], r"node2 lost \(no answer for", "generation 2: 4 ranks on 2 hosts", "host lost")

    def test_an_ssh_session_killed_by_force(self):
        self.begin()
        old = self.workers_of("node2")
        for process in self.new("node2"):
            if "sshd" in process.command:
                self.strike(process)
        self.await_generation(self.job, 2, 4)
        self.assertEndsOn("node2", old, "the workers of the lost host")
        self.end([0, 1], r"node2 lost \(its agent or the connection", "generation 2: 4 ranks on 2 hosts", "host lost")

    def test_a_host_without_power(self):
        self.begin()
        self.lose("node2")
        self.await_generation(self.job, 2, 4)
        self.end([0, 1], r"node2 lost \(no answer for", "generation 2: 4 ranks on 2 hosts", "host lost")

    def test_the_host_of_rank_0_without_power(self):
        self.begin()
        self.lose("node1")
        starts = self.await_generation(self.job, 2, 4)
        self.assertEqual([start["host"] for start in starts], ["node2", "node2", "node3", "node3"])
        self.end([0, 1], r"node1 lost \(no answer for", "generation 2: 4 ranks on 2 hosts", "host lost")

    def test_a_cut_cable_that_is_mended(self):
        self.begin("--blacklist-cooldown-range", "1s", "2s")
        old = self.workers_of("node2")
        self.lab.cut("node2")
        self.addCleanup(self.lab.heal, "node2")
        self.await_generation(self.job, 2, 4)
        self.assertEndsOn("node2", old, "the workers of generation 1, by themselves,")
        self.lab.heal("node2")
        self.await_generation(self.job, 3, 6)
        self.end([0, 1, 1], r"node2 lost \(no answer for", "generation 2: 4 ranks on 2 hosts",
                 "generation 3: 6 ranks on 3 hosts", "3 generations; 1 restart")

    def test_a_cable_mended_before_the_cut_host_has_noticed(self):
        """The agent there hears of its launcher again, which has given it up: it ends the workers."""
        self.begin("--blacklist-cooldown-range", "1s", "2s")
        old = self.workers_of("node2")
        self.lab.cut("node2")
        self.addCleanup(self.lab.heal, "node2")
        self.job.wait_for("node2 lost", stream="err")
        self.lab.heal("node2")
        self.await_generation(self.job, 2, 4)
        self.await_generation(self.job, 3, 6)
        self.assertEndsOn("node2", old, "the workers of generation 1")
        self.end([0, 1, 1], "node2 lost", "generation 3: 6 ranks on 3 hosts")

    def test_a_slow_host_is_no_death(self):
        self.begin()
        self.addCleanup(self.lab.slow, "node2")
        self.lab.slow("node2", delay_ms=200)
        self.lab.run("head", ["sleep", "6"])  # three host time-outs: what proves it is a host that outlives them
        self.await_generation(self.job, 1, 6)
        self.assertQuietOn(self.end([0]), "lost", "generation 2")

    def test_two_hosts_at_once_leave_too_few(self):
        self.begin("--elastic-timeout", "3s")
        self.lose("node1")
        self.lose("node3")
        done = self.assertEnds(self.job.wait(), 69)
        self.assertSays(done, "waiting for hosts: 2 slots of the 4", "too few hosts for the smallest world", "--min-np")


class Discovery(ElasticLabTest):
    def test_a_host_comes_and_another_goes(self):
        self.write("hosts", "node1:2\nnode2:2\n")
        self.begin("--discovery-interval", "200ms", hosts=("--discover", f"file:{self.folder}/hosts", "-np", 4,
                                                           "--max-np", 6), size=4)
        self.write("hosts", "node1:2\nnode2:2\nnode3:2\n")
        self.await_generation(self.job, 2, 6)
        self.write("hosts", "node2:2\nnode3:2\n")
        starts = self.await_generation(self.job, 3, 4)
        self.assertEqual([start["host"] for start in starts], ["node2", "node2", "node3", "node3"])
        self.job.wait_until(lambda: not self.new("node1"), "nothing is left on the host that has gone")
        self.end([0, 0, 0], "hosts found: node3", "generation 2: 6 ranks on 3 hosts; node3 came",
                 "hosts no longer listed: node1", "generation 3: 4 ranks on 2 hosts; node1 left",
                 "3 generations; 2 changes .hosts")

    def test_an_agent_told_to_leave(self):
        self.begin()
        self.strike(self.agent("node2"), signal.SIGTERM)
        self.await_generation(self.job, 2, 4)
        self.job.wait_until(lambda: not self.new("node2"), "nothing is left on the host that has gone")
        self.end([0, 0], "node2 leaves: the agent got SIGTERM", "generation 2: 4 ranks on 2 hosts; node2 leaves",
                 "2 generations; 1 change .hosts left.$")


if __name__ == "__main__":
    main()
