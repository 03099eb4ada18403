"""A job that outlives its workers, on this host: restarts, budgets, hangs, discovery, `trainrun ctl`."""
import json
import os
import shutil
import signal
import subprocess

from harness import TRAINRUN, WORKER, LocalTest, main
from training import Training

RESTARTS = ("--on-failure", "restart-world", "--grace", 1, "--settle", "100ms")
TWO_HOSTS = ("--transport", "local")  # any name is this host


class ElasticTest(Training, LocalTest):
    def setUp(self):
        super().setUp()
        self.runtime = self.folder + "/run"  # where this test's jobs have their sockets
        os.mkdir(self.runtime, 0o700)

    def environment(self, extra=None):
        return super().environment({"XDG_RUNTIME_DIR": self.runtime, **(extra or {})})

    def assertNothingLeft(self):
        super().assertNothingLeft()
        sockets = [name for _, _, names in os.walk(self.runtime) for name in names]
        self.assertEqual(sockets, [], "sockets were left")

    def agents(self, job):
        """Pids of the agents: parents of workers."""
        parents = {self.parent(pid) for pid, _ in self.workers()}
        self.assertNotIn(job.pid, parents)
        return sorted(parents)

    @staticmethod
    def parent(pid):
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rsplit(") ", 1)[1].split()[1])

    def own_jobs(self):
        """Jobs of other tests may run on this host, and have their sockets where every ctl looks."""
        return [name[:-len(".sock")] for _, _, names in os.walk(self.runtime) for name in names if name.endswith(".sock")]

    def ctl(self, *words, rc=0):
        which = [] if "list" in words else ["--job", *(self.own_jobs() or ["0" * 16])[:1]]
        done = subprocess.run([TRAINRUN, "ctl", *which, *map(str, words)], env=self.environment(), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual(done.returncode, rc, f"{words}: {done.stdout}{done.stderr}")
        return done.stdout + done.stderr


class Restarts(ElasticTest):
    def test_a_worker_killed_from_outside(self):
        job = self.start("-np", 2, *RESTARTS, *self.train())
        first = self.await_generation(job, 1)
        os.kill(first[1]["pid"], signal.SIGKILL)
        second = self.await_generation(job, 2)
        self.assertGreaterEqual(second[0]["from"], 2, "it did not go on from its checkpoint")
        self.finish()
        done = self.assertEnds(job.wait(), 0)
        self.assertInOrder(done.err, "generation 1: 2 ranks on 1 host$",
                           r"rank 1 on \S+ was killed by SIGKILL.*restarting all ranks \(restart 1 of 10 in 1h00m\)",
                           r"generation 2: 2 ranks on 1 host; after [\d.]+ s$",
                           r"2 generations; 1 restart \(rank failed\), which took [\d.]+ s$")
        self.assertEqual(done.err.count("was killed by SIGKILL"), 1, done)
        self.assertGenerationsFit([0, 1])

    def test_workers_that_end_by_themselves(self):
        for verb, words in (("exit 1", "exited with code 1"), ("die 11", r"was killed by SIGSEGV")):
            with self.subTest(worker=verb):
                done = self.run_job("-np", 2, *RESTARTS, WORKER, "before", 2, "on", 1, *verb.split(), "--",
                                    *self.train()[1:], "then", *self.train(3)[1:])
                self.assertSays(self.assertEnds(done, 0), rf"rank 1 on \S+ {words}.*restarting all ranks",
                                r"1 restart \(rank failed\)")
                for name in ("starts", "checkpoint", "lockstep.1", "lockstep.2"):
                    if os.path.exists(f"{self.folder}/{name}"):  # rank 0 may have been ended before it made one
                        os.unlink(f"{self.folder}/{name}")

    def test_the_budget_ends_the_job_with_the_workers_own_code(self):
        for verb, rc, words in (("exit 7", 7, "exited with code 7"), ("die 11", 139, "was killed by SIGSEGV")):
            with self.subTest(worker=verb):
                done = self.run_job("-np", 2, *RESTARTS, "--reset-limit", "1/1h", WORKER, "on", 1, *verb.split(), "--",
                                    "wait")
                self.assertEnds(done, rc)
                self.assertInOrder(done.err, "restart 1 of 1 in 1h00m", "generation 2",
                                   rf"^trainrun: rank 1 on \S+ {words}", "none left: 1 in 1h00m",
                                   "2 generations; 1 restart")
                self.assertAllGone(timeout=5)

    def test_no_restart_at_all(self):
        for limit in (("--reset-limit", 0), ("--max-restarts", 0)):
            done = self.run_job("-np", 2, *RESTARTS, *limit, WORKER, "on", 1, "exit", 7, "--", "wait")
            self.assertSays(self.assertEnds(done, 7), r"none allowed")
            self.assertQuietOn(done, "restarting all ranks", "generation 2")

    def test_only_from_the_second_restart_on_it_waits(self):
        done = self.run_job("-np", 2, *RESTARTS, "--reset-limit", 2, WORKER, "on", 1, "exit", 7, "--", "wait")
        self.assertEnds(done, 7)
        before_second = done.err.split("generation 2:")[0]
        self.assertNotIn("waiting", before_second)
        self.assertInOrder(done.err, "restart 1 of 2", "generation 2", "restart 2 of 2", "waiting 1.0 s", "generation 3")

    def test_a_replacement_that_says_it_lost_a_peer_pays_all_the_same(self):
        script = """test $TRAINRUN_RESTART_COUNT = 0 && exit 7
            echo "ConnectionResetError: [Errno 104] Connection reset by peer" >&2
            exit 1"""
        done = self.run_job("-np", 2, *RESTARTS, "--max-restarts", 3, "sh", "-c", script)
        self.assertSays(self.assertEnds(done, 1), "4 generations; 3 restarts")
        self.assertInOrder(done.err, "restart 1 of 3", "restart 2 of 3", "restart 3 of 3")

    def test_what_helps_is_said_at_the_first_restart_and_once_more_at_the_end(self):
        done = self.run_job("-np", 1, *RESTARTS, "--max-restarts", 2, "python3", "-c", "import no_such_module")
        self.assertEnds(done, 1)
        self.assertInOrder(done.err, "restart 1 of 2", "trainrun: try: it was run by .*: install the module", "generation 2",
                           "generation 3", "  try         it was run by .*: install the module", "none left")
        self.assertEqual(done.err.count("install the module"), 2, done.err)

    def test_the_only_host_is_used_again_however_often_its_workers_fail(self):
        done = self.run_job("-np", 2, *RESTARTS, "--reset-limit", "10/1s", WORKER, "before", 5, "on", 1, "exit", 7,
                            "--", "wait", "then", "exit", 0)
        self.assertSays(self.assertEnds(done, 0), "5 generations; 4 restarts")

    def test_quiet_is_quiet_when_it_goes_well_in_the_end(self):
        done = self.run_job("-np", 2, "--quiet", *RESTARTS, WORKER, "before", 2, "on", 1, "exit", 7, "--", "wait", "then",
                            "exit", 0)
        self.assertEqual(self.assertEnds(done, 0).err, "")

    def test_ranks_that_ignore_term_are_killed_before_the_next_generation(self):
        job = self.start("-np", 3, *RESTARTS, WORKER, "before", 2, "on", 1, "when", self.folder + "/go", "exit", 7,
                         "--", "stubborn", "then", "exit", 0)
        job.wait_for("ready", count=2)  # they ignore it by now
        open(self.folder + "/go", "w").close()
        self.assertInOrder(self.assertEnds(job.wait(), 0).err, "restart 1 of 10", "2 ranks did not end within .*SIGKILL",
                           "generation 2: 3 ranks")

    def test_daemons_of_a_generation_are_gone_before_the_next_one_starts(self):
        done = self.run_job("-np", 3, *RESTARTS, WORKER, "heir", self.folder)
        self.assertEnds(done, 0)
        self.assertSays(done, "rank 0 on .* exited with code 3", "2 generations; 1 restart")
        self.assertQuietOn(done, "is still there")

    def test_an_agent_that_is_killed(self):
        job = self.start("-np", 2, *RESTARTS, *self.train())
        self.await_generation(job, 1)
        os.kill(self.agents(job)[0], signal.SIGKILL)
        self.await_generation(job, 2)
        self.finish()
        self.assertSays(self.assertEnds(job.wait(), 0), r"lost \(process \d+ \(trainrun-agent\) ended\)",
                        r"1 restart \(host lost\)")
        self.assertGenerationsFit([0, 1])

    def test_an_agent_that_stands_still(self):
        job = self.start("-np", 2, *RESTARTS, "--host-timeout", "1s", *self.train())
        self.await_generation(job, 1)
        agent = self.agents(job)[0]
        old = [each["pid"] for each in self.starts(1)]
        os.kill(agent, signal.SIGSTOP)
        self.await_generation(job, 2)
        job.wait_until(lambda: not set(old + [agent]) & {pid for pid, _ in self.processes()},
                       "the old agent and its workers are gone")
        self.finish()
        self.assertSays(self.assertEnds(job.wait(), 0), r"lost \(process \d+ \(trainrun-agent\) gave no answer for ", r"\(host lost\)")
        self.assertGenerationsFit([0, 1])


    def test_a_port_that_is_refused_is_tried_again_and_at_last_ends_the_job(self):
        done = self.run_job("-np", 2, *RESTARTS, "--reset-limit", 1, WORKER, "exit", 0,
                            env={"TRAINRUN_FAULT": "agent.port=fail:98"})
        self.assertInOrder(self.assertEnds(done, 75).err,
                           "generation 1 was not up yet: .*MASTER_PORT: Address already in use; trying again .restart 1 of 1",
                           "cannot reserve a port for MASTER_PORT", "try +widen --port-range", "none left: 1")


class Hangs(ElasticTest):
    def test_a_stopped_worker_is_found_and_all_start_anew(self):
        job = self.start("-np", 2, *RESTARTS, "--hang-timeout", "1s", *self.train())
        first = self.await_generation(job, 1)
        os.kill(first[1]["pid"], signal.SIGSTOP)
        self.await_generation(job, 2)
        self.finish()
        done = self.assertEnds(job.wait(), 0)
        self.assertInOrder(done.err, "no sign of life from any rank for", r"  rank \d on \S+: state ",
                           r"no sign of life .*: rank 1 on \S+ is stopped; restarting all ranks",
                           "generation 2: 2 ranks on 1 host", r"\(hung\)")
        self.assertSays(done, r"rank 1 on \S+: state T", r"rank 0 on \S+: state [SR]")
        self.assertGenerationsFit([0, 1])

    def test_the_one_that_the_others_wait_for_is_named(self):
        done = self.run_job("-np", 3, "--hang-timeout", "1s", "sh", "-c",
                            "echo up; [ $RANK = 1 ] && exec sleep 600; while :; do :; done")
        self.assertInOrder(self.assertEnds(done, 124).err, "no sign of life from any rank for",
                           r"rank 1 is doing something different from the others: it sleeps .last output \S+ s ago., "
                           "and each of ranks 0 and 2 is running",
                           r"^trainrun: no sign of life from any rank for \S+ s: rank 1 on \S+ sleeps while each of the 2 "
                           "others is running, .* after the start")
        self.assertSays(done, r"rank 2 on \S+: state R, .*, last output \S+ s ago")

    def test_one_that_sleeps_elsewhere_is_named_first_and_ranks_are_told_in_order(self):
        script = self.write("odd.py", "import os, threading, time\nprint('up', flush=True)\n"
                            "time.sleep(600) if os.environ['RANK'] == '2' else threading.Event().wait()\n")
        done = self.run_job("-np", 4, "--hang-timeout", "1s", "/usr/bin/python3", script)
        self.assertInOrder(self.assertEnds(done, 124).err, "inspecting all ranks",
                           r"rank 2 is doing something different from the others: it .* and each of ranks 0, 1 and 3 ",
                           r"  rank 0 on \S+: state S", r"  rank 1 on \S+: state S", r"  rank 2 on \S+: state S",
                           r"  rank 3 on \S+: state S", "no sign of life from any rank for .* after the start")

    def test_one_that_spins_in_another_function_of_mpi_is_named(self):
        if not shutil.which("gdb"):
            self.skipTest("no gdb shows a stack here")
        program = self.folder + "/spin"
        source = self.write("spin.c", "#include <stdio.h>\n#include <stdlib.h>\nvolatile long n;\n"
                            "__attribute__((noinline)) void MPI_Recv(void) { for (;;) n++; }\n"
                            "__attribute__((noinline)) void MPI_Barrier(void) { for (;;) n++; }\n"
                            "int main(void) { puts(\"up\"), fflush(stdout);\n"
                            "  atoi(getenv(\"RANK\")) ? MPI_Barrier() : MPI_Recv(); }\n")
        subprocess.run(["cc", "-O0", "-o", program, source], check=True)
        done = self.run_job("-np", 3, "--hang-timeout", "1s", program)
        self.assertSays(self.assertEnds(done, 124), r"rank 0 is doing something different from the others: it is in MPI_Recv "
                        r".*, and each of ranks 1 and 2 is in MPI_Barrier", r"rank 1 on .*, in MPI_Barrier")

    def test_what_looks_at_ranks_when_they_end_was_not_left_by_them(self):
        tool = self.write("gdb", f"#!/bin/sh\nsleep 600 & touch {self.folder}/looks; wait\n")
        os.chmod(tool, 0o755)
        ends = f"until [ -e {self.folder}/looks ]; do sleep 0.1; done"
        done = self.run_job("-np", 2, "--hang-timeout", "1s", "sh", "-c", ends, env={"PATH": self.folder + ":" + os.environ["PATH"]})
        self.assertSays(self.assertEnds(done, 0), "inspecting all ranks")
        self.assertNotIn("behind", done.err)

    def test_with_no_restart_left_a_hang_ends_the_job(self):
        job = self.start("-np", 2, *RESTARTS, "--hang-timeout", "1s", "--reset-limit", 0, WORKER, "wait")
        self.assertSays(self.assertEnds(job.wait(), 124), "no sign of life from any rank", "--hang-timeout")

    def test_a_slow_start_and_slow_steps_are_no_hang(self):
        done = self.run_job("-np", 2, *RESTARTS, "--hang-timeout", "1s", *self.train(4, 600))
        self.assertQuietOn(self.assertEnds(done, 0), "no sign of life")


class Signals(ElasticTest):
    def test_an_interrupt_while_the_next_generation_is_waited_for(self):
        job = self.start("-np", 2, *RESTARTS, WORKER, "on", 1, "exit", 7, "--", "wait")
        job.wait_for("waiting 1.0 s", stream="err")
        job.signal(signal.SIGINT)
        self.assertSays(self.assertEnds(job.wait(), 130), "ended by SIGINT")

    def test_an_interrupt_while_a_generation_is_being_ended(self):
        job = self.start("-np", 2, *RESTARTS[:2], "--grace", 30, WORKER, "on", 1, "when", self.folder + "/go", "exit",
                         7, "--", "stubborn")
        job.wait_for("ready|waiting", count=2)
        self.write("go", "")
        job.wait_for("restart 1 of 10", stream="err")
        job.signal(signal.SIGINT)
        job.wait_for("ending the job", stream="err")
        job.press(signal.SIGINT, "again: killing")
        self.assertQuietOn(self.assertEnds(job.wait(), 130), "generation 2")


class Hosts(ElasticTest):
    def elastic(self, *words, low=1, high=4, np=2):
        return self.start(*TWO_HOSTS, "--min-np", low, "--max-np", high, "-np", np, *RESTARTS, *words, *self.train())

    def test_a_host_that_fails_at_first_is_used_once_it_can_be(self):
        self.write("hosts", "alpha:2\n")
        late = self.folder + "/late"
        job = self.start(*TWO_HOSTS, "--min-np", 2, "-np", 2, "--discover", f"file:{self.folder}/hosts", "--wdir", late,
                         WORKER, "exit", 0)
        job.wait_for("waiting up to .*--elastic-timeout", stream="err")
        os.mkdir(late)
        done = self.assertEnds(job.wait(), 0)
        self.assertInOrder(done.err, f"alpha: no usable directory '{late}': No such file.*; trying again .try: make it there",
                           "0 of 2 slots are available: waiting up to", "generation 1: 2 ranks on 1 host$")
        self.assertEqual(done.err.count("no usable directory"), 1, "a failure that repeats is no news")

    def test_a_file_of_hosts_grows_and_shrinks_the_world(self):
        self.write("hosts", "alpha:2\n")
        job = self.elastic("--discover", f"file:{self.folder}/hosts", "--discovery-interval", "200ms")
        self.await_generation(job, 1)
        self.write("hosts", "alpha:2\nbeta:2\n")
        self.await_generation(job, 2, size=4)
        self.write("hosts", "alpha:2\n")
        self.await_generation(job, 3, size=2)
        self.finish()
        done = self.assertEnds(job.wait(), 0)
        self.assertInOrder(done.err, "generation 1: 2 ranks on 1 host", "hosts found: beta",
                           "generation 2: 4 ranks on 2 hosts; beta came$", "hosts no longer listed: beta",
                           "generation 3: 2 ranks on 1 host; beta left$", "3 generations; 2 changes .hosts")
        self.assertQuietOn(done, "restart 1 of")
        self.assertGenerationsFit([0, 0, 0])

    def test_a_script_of_hosts_grows_and_shrinks_the_world(self):
        self.write("hosts", "beta:1\nalpha:1\n")
        self.write("script", f'cat "{self.folder}/hosts"; echo "$TRAINRUN_CURRENT_HOSTS" >>"{self.folder}/told"\n')
        job = self.elastic("--host-discovery-script", f"sh {self.folder}/script", "--discovery-interval", "100ms")
        self.await_generation(job, 1)
        self.write("hosts", "alpha:2\nbeta:1\n")
        self.await_generation(job, 2, size=3)
        self.write("hosts", "!beta\nalpha:2\n")
        self.await_generation(job, 3, size=2)
        self.finish()
        self.assertSays(self.assertEnds(job.wait(), 0), "generation 3: 2 ranks on 1 host; beta left")

    def test_a_flap_of_the_discovery_tears_nothing_down(self):
        self.write("hosts", "alpha:1\nbeta:1\n")
        self.write("script", f'echo . >>{self.folder}/asked; cat "{self.folder}/hosts"\n')
        job = self.elastic("--host-discovery-script", f"sh {self.folder}/script", "--discovery-interval", "100ms")
        self.await_generation(job, 1)
        self.once("echo")  # nobody
        self.once("exit 3")
        self.once("echo '%%%'")
        self.finish()
        done = self.assertEnds(job.wait(), 0)
        self.assertSays(done, "host discovery: ")
        self.assertQuietOn(done, "generation 2", "no longer listed")

    def test_the_end_says_why_no_host_came(self):
        job = self.start("--min-np", 2, "--host-discovery-script", "echo no creds >&2; exit 3", "--elastic-timeout", "1s",
                         "true")
        done = self.assertEnds(job.wait(), 69)
        self.assertSays(done, "too few hosts for the smallest world, for 1.0 s .--elastic-timeout.; host discovery: .*exited with code 3; "
                              "its last words: 'no creds'")

    def test_a_start_timeout_ends_the_wait_for_hosts_that_nobody_lists(self):
        done = self.assertEnds(self.run_job("--min-np", 2, "--host-discovery-script", "true", "--start-timeout", "1s",
                                            "true"), 69)
        self.assertSays(done, "too few hosts for the smallest world, for 1.0 s .--start-timeout.; "
                              "the host discovery lists no host")

    def once(self, answer):
        """One look gets that answer, the next ones the usual one."""
        usual = f'echo . >>{self.folder}/asked; cat "{self.folder}/hosts"\n'
        self.write("usual", usual)
        self.write("script", f"cp {self.folder}/usual {self.folder}/usual.copy; mv {self.folder}/usual.copy "
                             f"{self.folder}/script; echo . >>{self.folder}/asked\n{answer}\n")
        asked = self.asked()
        self.jobs[-1].wait_until(lambda: self.asked() >= asked + 4, "the script is asked again")

    def asked(self):
        return os.path.getsize(self.folder + "/asked")

    def test_a_start_that_waits_for_hosts_says_so(self):
        self.write("hosts", "alpha:1\n")
        job = self.elastic("--discover", f"file:{self.folder}/hosts", "--discovery-interval", "100ms")
        job.wait_for("1 of 2 slots are available: waiting up to .* for more hosts", stream="err")
        self.write("hosts", "alpha:2\n")
        self.await_generation(job, 1)
        self.finish()
        self.assertEnds(job.wait(), 0)

    def test_hosts_that_all_go_end_the_job_after_the_elastic_timeout(self):
        self.write("hosts", "alpha:2\n")
        job = self.elastic("--discover", f"file:{self.folder}/hosts", "--discovery-interval", "100ms",
                           "--elastic-timeout", "1s", low=2, high=2)
        started = self.await_generation(job, 1)
        self.write("hosts", "\n")
        job.wait_for("hosts no longer listed: alpha; kept", stream="err")
        os.kill(started[0]["pid"], signal.SIGKILL)
        self.await_generation(job, 2)  # there: the list may be wrong
        self.ctl("remove", "alpha", "--force")
        self.assertSays(self.assertEnds(job.wait(), 69), "waiting for hosts: 0 slots of the 2",
                        "too few hosts for the smallest world, for 1.0 s", "--min-np")

    def test_an_agent_that_is_told_to_leave_is_no_failure(self):
        self.write("hosts", "alpha:1\nbeta:1\n")
        job = self.elastic("--discover", f"file:{self.folder}/hosts")
        first = self.await_generation(job, 1)
        os.kill(self.parent(first[1]["pid"]), signal.SIGTERM)
        self.await_generation(job, 2, size=1)
        self.finish()
        done = self.assertEnds(job.wait(), 0)
        self.assertInOrder(done.err, "beta leaves: ", "generation 2: 1 rank on 1 host; beta leaves",
                           "2 generations; 1 change .hosts left.$")
        self.assertGenerationsFit([0, 0])


if __name__ == "__main__":
    main()
