"""Nothing survives on this host: not after the launcher's death, nor the agent's, nor by a worker's tricks."""
import os
import signal
import subprocess
import unittest

from harness import TRAINRUN, WORKER, LocalTest, main

GRACE = 2  # seconds, what these jobs are given


class Deaths(LocalTest):
    def ready(self, *verb, count=2):
        job = self.start("-np", count, "--grace", GRACE, WORKER, *verb)
        job.wait_for("ready", count=count)
        return job

    def agent(self, job):
        """The agent's pid: the parent of the workers."""
        with open(f"/proc/{self.workers()[0][0]}/stat") as file:
            parent = int(file.read().rsplit(") ", 1)[1].split()[1])
        self.assertNotIn(parent, (1, job.pid), self.processes())
        return parent

    def end(self, job):
        """After the launcher's kill -9: its pipes close when nobody holds them any more."""
        job.process.wait()
        self.assertAllGone()

    def test_kill_9_of_the_launcher_ends_every_worker(self):
        for verb in (("wait",), ("stubborn",), ("burn",), ("deaf",), ("daemon", "wait"), ("holder", "wait")):
            with self.subTest(worker=verb):
                job = self.ready(*verb)
                job.signal(signal.SIGKILL)
                self.end(job)

    def test_kill_9_of_the_launcher_leaves_the_ranks_all_of_their_grace(self):
        # Longer than the 3 s that the watcher waits for a sign of life of the agent.
        job = self.start("-np", 1, "--grace", 60, "--host-timeout", 1, "sh", "-c",
                         "trap 'sleep 5; echo saved > saved; exit' TERM; echo ready; while :; do sleep 0.1; done")
        job.wait_for("ready")
        job.signal(signal.SIGKILL)
        self.end(job)
        with open(self.folder + "/saved") as file:
            self.assertEqual(file.read(), "saved\n")

    def test_what_a_good_job_left_has_all_of_its_grace_and_the_host_is_not_called_lost(self):
        leaves = ("sh -c \"trap 'sleep 5; echo saved > saved; exit' TERM; echo ready; while :; do sleep 0.1; done\" & "
                  "read line < go")
        os.mkfifo(self.folder + "/go")
        job = self.start("-np", 1, "--grace", 60, "--host-timeout", 1, "sh", "-c", leaves)
        job.wait_for("ready")
        with open(self.folder + "/go", "w") as go:
            go.write("\n")
        self.assertQuietOn(self.assertEnds(job.wait(), 0), "the connection to it ended")
        with open(self.folder + "/saved") as file:
            self.assertEqual(file.read(), "saved\n")

    def kill_at_once(self, *pids):
        for number in (signal.SIGSTOP, signal.SIGKILL):  # nobody has the time to clear up
            for pid in pids:
                os.kill(pid, number)

    def watcher_of(self, agent):
        with open(f"/proc/{agent}/stat") as file:
            return int(file.read().rsplit(") ", 1)[1].split()[1])

    def test_the_directory_of_a_job_that_was_killed_as_a_whole_goes_with_the_next_job(self):
        job = self.ready("wait")
        agent = self.agent(job)
        self.kill_at_once(job.pid, self.watcher_of(agent), agent)
        self.end(job)
        self.assertEqual([name[:9] for name in os.listdir(self.temporary)], ["trainrun."])
        self.assertQuietOn(self.assertEnds(self.run_job("-np", 1, "true"), 0), "earlier job")
        self.assertEqual(os.listdir(self.temporary), [])

    def test_and_so_does_what_its_ranks_had_started(self):
        job = self.ready("daemon", "wait")
        agent = self.agent(job)
        self.kill_at_once(job.pid, self.watcher_of(agent), agent)
        job.wait()
        self.assertNotEqual(self.workers(), [])
        done = self.assertEnds(self.run_job("-np", 1, "true"), 0)
        self.assertSays(done, r"^trainrun: \S+: ended (1 process|\d+ processes) left here by an earlier job whose agent was killed$")
        self.assertAllGone()

    def test_kill_9_of_agent_and_watcher_leaves_nothing_that_ranks_had_started(self):
        job = self.ready("daemon", "wait")
        agent = self.agent(job)
        self.kill_at_once(self.watcher_of(agent), agent)
        done = self.assertEnds(job.wait(), 69)
        self.assertSays(done, r"^trainrun: \d+ process(es)? that ranks here had left (was|were) ended$")
        self.assertEqual(self.processes(), [])

    def test_a_watcher_that_is_killed_is_the_cause_and_not_a_signal_that_nobody_sent(self):
        job = self.ready("wait")
        os.kill(self.watcher_of(self.agent(job)), signal.SIGKILL)
        self.assertQuietOn(self.assertEnds(job.wait(), 69), "was told to end", "as well")
        self.assertEqual(self.processes(), [])

    def test_its_own_watcher_is_gone_when_the_launcher_ends(self):
        # Who has children that nobody waited for gets them: a subreaper, or init.
        script = ("import ctypes, os, subprocess, sys\n"
                  "ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)\n"
                  "print(subprocess.run(sys.argv[1:]).returncode)\n"
                  "try:\n    print('left', os.waitpid(-1, os.WNOHANG))\n"
                  "except ChildProcessError:\n    print('nobody left')\n")
        done = self.run_job("-c", script, TRAINRUN, "-np", 2, "true", program="/usr/bin/python3")
        self.assertEqual(done.out, "0\nnobody left\n", str(done))

    def test_kill_9_of_the_agent_ends_every_worker_and_the_job_with_69(self):
        for verb in (("wait",), ("stubborn",), ("daemon", "wait"), ("holder", "wait")):
            with self.subTest(worker=verb):
                job = self.ready(*verb)
                agent = self.agent(job)
                os.kill(agent, signal.SIGKILL)
                self.assertSays(self.assertEnds(job.wait(), 69), rf"this host's agent .*: process {agent} \(trainrun-agent\) ended")
                self.assertAllGone()

    def test_kill_9_of_all_of_ours_but_the_watcher_still_ends_every_worker(self):
        job = self.ready("daemon", "wait")
        agent = self.agent(job)
        os.kill(job.pid, signal.SIGSTOP)  # so that the launcher cannot act before it dies
        os.kill(agent, signal.SIGKILL)
        os.kill(job.pid, signal.SIGKILL)
        self.end(job)

    def test_a_worker_that_fails_leaves_no_daemon_behind(self):
        self.assertEnds(self.run_job("-np", 2, "--grace", GRACE, WORKER, "daemon", 3), 3)
        self.assertAllGone(timeout=5)

    def test_a_worker_that_ends_well_leaves_no_daemon_behind(self):
        self.assertEnds(self.run_job("-np", 2, "--grace", GRACE, WORKER, "daemon", 0), 0)
        self.assertAllGone(timeout=5)

    def test_a_grandchild_that_holds_the_pipes_does_not_hold_the_job(self):
        self.assertEnds(self.run_job("-np", 2, "--grace", GRACE, WORKER, "holder", 0), 0)
        self.assertEnds(self.run_job("-np", 2, "--grace", GRACE, WORKER, "holder", 4), 4)
        self.assertAllGone(timeout=5)

    def test_a_worker_that_closes_its_pipes_is_still_waited_for(self):
        job = self.start("-np", 2, "--grace", GRACE, "sh", "-c",
                         f"exec >&- 2>&- <&-; {WORKER} when {self.folder}/go exit 0 >/dev/null 2>/dev/null; exit 5")
        job.wait_until(lambda: len(self.workers()) == 2, "both workers run")
        self.assertFalse(job.ended)
        open(self.folder + "/go", "w").close()
        self.assertEnds(job.wait(), 5)

    def test_grandchildren_end_with_a_failed_job(self):
        done = self.run_job("-np", 2, "--grace", GRACE, "sh", "-c",
                            f"{WORKER} stubborn & {WORKER} wait & {WORKER} on 1 exit 3 -- wait")
        self.assertEnds(done, 3)
        self.assertAllGone(timeout=5)

    def test_a_worker_killed_by_its_own_hand_while_the_agent_is_stopped_is_seen_when_it_goes_on(self):
        job = self.ready("wait")
        agent = self.agent(job)
        workers = [pid for pid, _ in self.workers()]
        os.kill(agent, signal.SIGSTOP)
        os.kill(workers[0], signal.SIGKILL)
        os.kill(agent, signal.SIGCONT)
        self.assertEnds(job.wait(), 137)

    def test_an_agent_that_hangs_is_a_lost_host(self):
        job = self.start("-np", 2, "--grace", GRACE, "--host-timeout", 2, WORKER, "wait")
        job.wait_for("ready", count=2)
        agent = self.agent(job)
        os.kill(agent, signal.SIGSTOP)
        done = self.assertEnds(job.wait(), 69)
        self.assertSays(done, "lost|no answer|silent")
        os.kill(agent, signal.SIGCONT)
        self.assertAllGone()

    def test_the_private_folder_of_a_job_is_removed_after_kill_9_too(self):
        job = self.ready("wait")
        job.signal(signal.SIGKILL)
        self.end(job)
        self.assertNothingLeft()


@unittest.skipIf(os.geteuid() != 0, "makes a set-uid program, which needs root")
class AnotherUsers(LocalTest):
    """What a rank of an ordinary user starts by a set-uid program, as sudo is, cannot be ended by him."""
    NOBODY = 65534

    def setUp(self):
        super().setUp()
        for folder in (self.folder, self.temporary, self.home):
            os.chmod(folder, 0o777)
        self.become = self.folder + "/become_root"
        with open(self.become + ".c", "w") as file:
            file.write("#include <stdio.h>\n#include <unistd.h>\n"
                       "int main(void) { if (setgid(0) || setuid(0)) return 1;\n"
                       "  puts(\"ready\"), fflush(stdout), sleep(600); }\n")
        subprocess.run(["cc", "-o", self.become, self.become + ".c"], check=True)
        os.chmod(self.become, 0o4755)

    def end_of_all(self):
        # The set-uid start has cleared nothing of its environment: they have the mark of this test.
        left = [pid for pid, command in self.processes() if command.startswith(self.become)]
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        return left

    def run_as_nobody(self, *words):
        done = self.run_job(*words, user=self.NOBODY, group=self.NOBODY, extra_groups=())
        if len(self.end_of_all()) != 1:
            self.skipTest(f"set-uid programs have no effect here: {done}")
        return done

    def test_one_that_was_left_behind_is_named_and_not_called_ended(self):
        done = self.run_as_nobody("-np", 1, "--grace", 1, "sh", "-c", f"{self.become} > said & until [ -s said ]; do :; done")
        self.assertSays(self.assertEnds(done, 0),
                        r"process \d+ \(become_root\) could not be ended: Operation not permitted")
        self.assertQuietOn(done, "ended and left")

    def test_a_rank_is_named(self):
        job = self.start("-np", 1, "--grace", 1, self.become, user=self.NOBODY, group=self.NOBODY, extra_groups=())
        job.wait_for("ready")
        job.signal(signal.SIGTERM)
        job.wait_for(r"process \d+ \(become_root\) could not be ended: Operation not permitted", stream="err")
        job.wait()
        self.end_of_all()


if __name__ == "__main__":
    main()
