"""Any plug may be pulled: programs on `comm` go on in place after every kind of death, and lose nothing."""
import signal

from digits import Digits
from elastic_lab import COMMON, ElasticLabTest
from harness import main


# Two ranks that start together join together, however slow the machine is.
BOTH = ("--settle", "5s")


class InPlaceTest(Digits, ElasticLabTest):
    def begin(self, *words, hosts=("-np", 6, "-H", "node1:2,node2:2,node3:2"), size=6, program=None):
        """Until the first epoch is over; remembers the processes of all ranks."""
        self.job = self.start(*COMMON, *self.POLICY, *words, *hosts, *(program or self.digits()))
        self.await_world(self.job, 1, size)
        self.await_epoch(self.job, 1)
        self.first = {host: self.workers_of(host) for host in self.lab.hosts}

    def assertKept(self, *hosts, but=()):
        """The processes of the first generation there are the ones that train now."""
        for host in hosts:
            now = {(process.pid, process.started) for process in self.workers_of(host)}
            for process in self.first[host]:
                if process not in but:
                    self.assertIn((process.pid, process.started), now, f"{process} of {host} has not survived")

    def end(self, *said):
        done = self.assertEnds(self.job.wait(), 0)
        self.assertInOrder(done.err, *said)
        self.assertTrained(done)
        return done


class Deaths(InPlaceTest):
    def test_a_worker_killed_by_force(self):
        self.begin()
        victim = self.first["node2"][0]
        self.strike(victim)
        self.await_world(self.job, 2, 5)
        self.await_world(self.job, 3, 6)
        self.assertKept("node1", "node2", "node3", but=[victim])
        self.end(r"rank [23] on node2 was killed by SIGKILL; the others go on", "starting rank 5 on node2",
                 "generation 2: 5 ranks on 3 hosts; state kept by 5 survivors",
                 "generation 3: 6 ranks on 3 hosts; rank 5 on node2 is ready; state kept by 5 survivors",
                 r"1 restart \(rank failed\).*1 change \(ranks ready\)")

    def test_nobody_waits_for_one_that_loads(self):
        self.write("wrapper", f'''[ "$TRAINRUN_GENERATION" = 1 ] || while ! [ -e "{self.folder}/loaded" ]; do sleep 0.05; done
exec "$@"
''')
        self.begin(program=("sh", self.folder + "/wrapper", *self.digits()))
        self.strike(self.first["node2"][0])
        self.await_world(self.job, 2, 5)
        self.await_epoch(self.job, 2)  # they work
        self.write("loaded", "")
        self.await_world(self.job, 3, 6)
        self.assertKept("node1", "node3")
        self.end("generation 2: 5 ranks on 3 hosts", "generation 3: 6 ranks on 3 hosts")

    def test_a_worker_that_exits_with_1(self):
        self.write("wrapper", f'''if [ "$RANK" = 3 ] && mkdir "{self.folder}/once" 2>/dev/null; then
  "$@" & while ! [ -e "{self.folder}/go" ]; do sleep 0.05; done; kill -9 $!; exit 1
fi; exec "$@"
''')
        self.begin(program=("sh", self.folder + "/wrapper", *self.digits()))
        self.write("go", "")
        self.await_world(self.job, 2, 5)
        self.await_world(self.job, 3, 6)
        self.assertKept("node1", "node3")
        self.end("rank 3 on node2 exited with code 1; the others go on", "state kept by 5 survivors", "rank failed")

    def test_a_replacement_that_fails_costs_nothing_and_the_others_go_on(self):
        script = """test "$TRAINRUN_RESTART_COUNT" = 0 && exec "$@"
            echo "ConnectionResetError: [Errno 104] Connection reset by peer" >&2
            exit 1"""
        self.begin("--max-restarts", 1, program=("sh", "-c", script, "sh", *self.digits(pace=60)))
        self.strike(self.first["node2"][0])
        self.assertQuietOn(self.end("restart 1 of 1",
                                    "exited with code 1.* before it had joined; 5 ranks go on without it; starting it again in",
                                    r"1 restart \(rank failed\)"), "none left", "generation 3: ")

    def test_a_worker_that_is_stopped(self):
        self.begin("--hang-timeout", "2s")
        victim = self.first["node3"][0]
        self.strike(victim, signal.SIGSTOP)
        self.await_world(self.job, 2, 5)
        self.await_world(self.job, 3, 6)
        self.assertKept("node1", "node2", "node3", but=[victim])
        self.end("no sign of life", r"rank \d on node3: state T",
                 "generation 2: 5 ranks on 3 hosts; state kept by 5 survivors", "generation 3: 6 ranks on 3 hosts", "hung")

    def test_an_agent_killed_by_force(self):
        self.begin()
        self.strike(self.agent("node2"))
        self.assertGoesOnWithout("node2", r"its agent or the connection")

    def test_an_agent_that_stands_still(self):
        self.begin()
        self.strike(self.agent("node2"), signal.SIGSTOP)
        self.assertGoesOnWithout("node2", "no answer for")

    def test_an_ssh_session_killed_by_force(self):
        self.begin()
        for process in self.new("node2"):
            if "sshd" in process.command:
                self.strike(process)
        self.assertGoesOnWithout("node2", r"its agent or the connection")

    def test_a_host_without_power(self):
        self.begin()
        self.lose("node2")
        self.assertGoesOnWithout("node2", "no answer for")

    def test_the_host_of_rank_0_without_power(self):
        self.begin()
        self.lose("node1")
        self.assertGoesOnWithout("node1", "no answer for")

    def assertGoesOnWithout(self, host, why):
        self.await_world(self.job, 2, 4)
        self.assertKept(*{"node1", "node2", "node3"} - {host})
        if self.before[host]:
            self.assertEndsOn(host, self.first[host], "the workers of the lost host")
        self.end(rf"{host} lost \({why}.*the others go on",
                 "generation 2: 4 ranks on 2 hosts; state kept by 4 survivors", "host lost")

    def test_a_cut_cable_that_is_mended(self):
        self.begin("--blacklist-cooldown-range", "1s", "2s", *BOTH, program=self.digits(pace=100))
        self.lab.cut("node2")
        self.addCleanup(self.lab.heal, "node2")
        self.await_world(self.job, 2, 4)
        self.assertEndsOn("node2", self.first["node2"], "the workers of generation 1, by themselves,")
        self.lab.heal("node2")
        self.await_world(self.job, 3, 6)
        self.assertKept("node1", "node3")
        self.end(r"node2 lost \(no answer for", "generation 2: 4 ranks on 2 hosts",
                 "generation 3: 6 ranks on 3 hosts; node2 came; state kept by 4 survivors",
                 "3 generations; 1 restart")

    def test_a_slow_host_is_no_death(self):
        self.begin()
        self.addCleanup(self.lab.slow, "node2")
        self.lab.slow("node2", delay_ms=200)
        self.lab.run("head", ["sleep", "6"])  # three host time-outs: what proves it is a host that outlives them
        self.lab.slow("node2")
        self.assertQuietOn(self.end(), "lost", "generation 2")


class Hosts(InPlaceTest):
    def test_a_host_comes_and_another_goes(self):
        self.write("hosts", "node1:2\nnode2:2\n")
        self.begin("--discovery-interval", "200ms", "--settle", "2s", size=4, program=self.digits(pace=100),
                   hosts=("--discover", f"file:{self.folder}/hosts", "-np", 4, "--max-np", 6))
        self.write("hosts", "node1:2\nnode2:2\nnode3:2\n")
        self.await_world(self.job, 2, 6)
        self.assertKept("node1", "node2")
        self.write("hosts", "node2:2\nnode3:2\n")
        self.await_world(self.job, 3, 4)
        self.job.wait_until(lambda: not self.new("node1"), "nothing is left on the host that has gone")
        self.assertKept("node2")
        self.end("hosts found: node3", "generation 2: 6 ranks on 3 hosts; node3 came; state kept by 4 survivors",
                 "hosts no longer listed: node1",
                 "generation 3: 4 ranks on 2 hosts; node1 left; state kept by 4 survivors", "3 generations; 2 changes")

    def test_an_agent_told_to_leave(self):
        self.begin()
        self.strike(self.agent("node2"), signal.SIGTERM)
        self.await_world(self.job, 2, 4)
        self.job.wait_until(lambda: not self.new("node2"), "nothing is left on the host that has gone")
        self.assertKept("node1", "node3")
        self.end("node2 leaves: the agent got SIGTERM", "generation 2: 4 ranks on 2 hosts; node2 leaves",
                 "2 generations; 1 change .hosts left.$")

    def test_a_spare_takes_the_place_of_a_lost_host(self):
        self.begin("--spares", 2, hosts=("-np", 4, "-H", "node1:2,node2:2,node3:2"), size=4)
        self.assertEqual(self.first["node3"], [])
        self.strike(self.agent("node2"))
        self.await_world(self.job, 2, 4)
        self.assertKept("node1")
        self.assertEqual(len(self.workers_of("node3")), 2)
        self.end("node2 lost", "generation 2: 4 ranks on 2 hosts; state kept by 2 survivors", "host lost")

    def test_ranks_that_the_user_restarts_and_stops(self):
        self.begin(program=self.digits(pace=60))
        self.ctl("restart", "3")
        self.await_world(self.job, 2, 5)
        self.await_world(self.job, 3, 6)
        self.assertKept("node1", "node3")
        self.ctl("stop", "0")
        self.await_world(self.job, 4, 5)
        self.assertKept("node3")
        self.end("generation 2: 5 ranks on 3 hosts; the user asked for a restart of rank 3; state kept by 5 survivors",
                 "generation 3: 6 ranks on 3 hosts; rank 5 on node2 is ready; state kept by 5 survivors",
                 "generation 4: 5 ranks on 3 hosts; the user stopped rank 0; state kept by 5 survivors",
                 r"4 generations; 3 changes \(asked for 2x, ranks ready\)")


    def test_a_restart_of_all_that_the_user_asks_for(self):
        self.begin(program=self.digits("--checkpoint", self.folder + "/checkpoint"))
        self.await_epoch(self.job, 2)  # so the checkpoint of the first is written
        self.assertIn("would lose the state that they hold in memory", self.ctl("restart"))
        self.ctl("--force", "restart")
        self.await_world(self.job, 2, 6)
        done = self.end("generation 2: 6 ranks on 3 hosts; the user asked for a restart$", "2 generations; 1 change")
        self.assertIn("going on after epoch", done.out)
        self.assertQuietOn(done, "no rank survived")


class Worst(InPlaceTest):
    def test_without_a_survivor_it_starts_anew_from_its_checkpoint(self):
        self.begin(program=self.digits("--checkpoint", self.folder + "/checkpoint"))
        self.await_epoch(self.job, 2)  # so the checkpoint of the first is written
        for workers in self.first.values():
            for process in workers:
                self.strike(process, signal.SIGSTOP)  # so that none notices the others
        for workers in self.first.values():
            for process in workers:
                self.strike(process)
        done = self.end("no rank survived: restarting all ranks from the program's own checkpoint",
                        "6 ranks on 3 hosts")
        self.assertIn("going on after epoch", done.out)

    def test_one_death_after_the_other(self):
        self.begin(program=self.digits(pace=60))
        for generation, host in ((2, "node1"), (4, "node3"), (6, "node1")):
            self.strike(self.workers_of(host)[0])
            self.await_world(self.job, generation, 5)
            self.await_world(self.job, generation + 1, 6)
        self.end("generation 3: 6 ranks", "generation 5: 6 ranks", "generation 7: 6 ranks",
                 "7 generations; 3 restarts .*rank failed 3x")


if __name__ == "__main__":
    main()
