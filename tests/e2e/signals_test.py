"""Signals to the launcher: what ends a job, and what is handed on."""
import os
import re
import signal
import subprocess

from harness import TRAINRUN, WORKER, LocalTest, Result, main

ENDING = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGQUIT: 131}


PARENT = """import signal, subprocess, sys
child = subprocess.Popen(["sleep", "600"])
def save(*_):
    try:
        child.wait(1)  # what must not happen is given time to
    except subprocess.TimeoutExpired:
        print("its child lives", flush=True)
    sys.exit()
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
signal.pause()
"""

# Writes each SIGTERM that it gets into a file, and takes longer to save than anything would wait for a process
# that was left behind.
SAVER = """import os, signal, sys, time
log = open(sys.argv[1] + "." + os.environ["RANK"], "w", buffering=1)
def save(*_):
    print("saving", flush=True)
    log.write("begin\\n")
    signal.sigtimedwait([signal.SIGUSR2], 3)
    log.write("end\\n")
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
if os.environ["RANK"] == os.environ.get("FAILS"):
    open("go").read()
    sys.exit(7)
while True:
    signal.pause()
"""


class Ending(LocalTest):
    def ready(self, *words, count=2, **options):
        job = self.start("-np", count, *words, **options)
        job.wait_for("ready", count=count)
        return job

    def test_without_proc_a_rank_is_asked_to_end_all_the_same(self):
        if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "umount", "-l", "/proc"], check=False).returncode:
            self.skipTest("/proc cannot be taken away here")
        # The sanitizer's look for leaks would read it.
        job = self.start("--mount", TRAINRUN, "-np", 2, "--grace", 60, "sh", "-c", "umount -l /proc; echo ready; exec sleep 600",
                         program="unshare", env={"ASAN_OPTIONS": "detect_leaks=0"})
        job.wait_for("ready", count=2)
        job.signal(signal.SIGTERM)
        self.assertSays(self.assertEnds(job.wait(), 143), "2 ranks ended after SIGTERM")

    def test_the_first_drains_workers_get_term_and_can_finish(self):
        for number, code in ENDING.items():
            with self.subTest(signal=number.name):
                job = self.ready("--grace", 30, WORKER, "signals", 0)
                job.signal(number)
                done = self.assertEnds(job.wait(), code)
                self.assertEqual(done.died_by, number)
                self.assertEqual(done.out.count("got TERM"), 2, str(done))
                self.assertQuietOn(done, "did not end", "needed SIGKILL")

    def test_a_signal_that_its_parent_has_blocked_is_heard(self):
        blocked = "import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, {int(sys.argv[1])}); os.execv(sys.argv[2], sys.argv[2:])"
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            with self.subTest(signal=number.name):
                job = self.start("-c", blocked, int(number), TRAINRUN, "-np", 2, WORKER, "signals", 0, program="/usr/bin/python3")
                job.wait_for("ready", count=2)
                job.signal(signal.SIGTERM if number == signal.SIGCHLD else number)
                self.assertEnds(job.wait(), 130 if number == signal.SIGINT else 143)

    def test_who_ends_all_of_its_processes_lets_ranks_finish_as_the_launcher_does(self):
        # As `pkill trainrun` and systemd do; in which order is not known.
        saves = ("trap 'echo asked; read word < $0.$RANK; echo saved; exit' TERM; echo ready $PPID; "
                 "while :; do sleep 0.05; done")
        for first in range(3):
            for all_of_them in (True, False):
                with self.subTest(first=("launcher", "watcher", "agent")[first], all_of_them=all_of_them):
                    gate = f"{self.folder}/gate{first}{all_of_them}"
                    os.mkfifo(gate + ".0")
                    os.mkfifo(gate + ".1")
                    job = self.ready("--grace", 30, "--tag", "none", "sh", "-c", saves, gate)
                    agent = int(job.wait_for(r"ready \d+")[0].split()[1])
                    with open(f"/proc/{agent}/stat") as file:
                        watcher = int(file.read().rsplit(") ", 1)[1].split()[1])
                    ours = [job.pid, watcher, agent]
                    for pid in ours[first:] + ours[:first] if all_of_them else [ours[first]]:
                        os.kill(pid, signal.SIGTERM)
                    job.wait_for("asked", count=2)
                    gates = [os.open(f"{gate}.{rank}", os.O_RDWR) for rank in range(2)]  # which waits for nobody
                    for fd in gates:
                        self.addCleanup(os.close, fd)
                        os.write(fd, b"go\n")
                    done = self.assertEnds(job.wait(), 143 if all_of_them or first == 0 else 69)
                    self.assertEqual(done.out.count("saved"), 2, str(done))
                    if done.rc == 69:
                        self.assertSays(done, r"this host's agent \(ranks 0-1\) was told to end .*: the agent got SIGTERM")

    def test_the_children_of_a_program_do_not_get_its_term_and_the_program_can_use_them(self):
        # As a trainer with data-loader workers, which must live for the step that it finishes before it saves.
        for words in (["python3", "-c", PARENT], ["bash", "-c", 'python3 -c "$0"; exit $?', PARENT]):
            with self.subTest(program=words[0]):
                job = self.ready("--grace", 30, *words)
                job.signal(signal.SIGTERM)
                done = self.assertEnds(job.wait(), 143)
                self.assertEqual(done.out.count("its child lives"), 2, str(done))
                self.assertAllGone()

    def test_a_program_in_a_script_gets_term_once_and_saves_whatever_its_script_does(self):
        for script in ('python3 -c "$0" h; exit $?',
                       'python3 -c "$0" h 2>&1 | tee log.$RANK; exit ${PIPESTATUS[0]}',
                       'exec > >(tee log.$RANK) 2>&1; python3 -c "$0" h; exit $?',
                       'trap "echo cleared" EXIT; python3 -c "$0" h',
                       'trap "exit 3" TERM; python3 -c "$0" h & wait',
                       '(python3 -c "$0" h; true) & wait',
                       '(while :; do sleep 0.1; done) & python3 -c "$0" h'):
            with self.subTest(script=script):
                job = self.ready("--grace", 60, "bash", "-c", script, SAVER, count=2)
                job.signal(signal.SIGTERM)
                self.check_saved(self.assertEnds(job.wait(), 143), 2)

    def test_a_program_in_a_script_saves_when_another_rank_fails(self):
        os.mkfifo(self.folder + "/go")
        job = self.ready("--grace", 60, "-x", "FAILS=1", "bash", "-c",
                         'python3 -c "$0" h 2>&1 | tee log.$RANK; exit ${PIPESTATUS[0]}', SAVER)
        with open(self.folder + "/go", "w"):
            pass
        self.check_saved(self.assertEnds(job.wait(), 7), 1)

    def check_saved(self, done, count):
        for rank in range(count):
            with open(f"{self.folder}/h.{rank}") as log:
                self.assertEqual(log.read(), "begin\nend\n", str(done))
        self.assertEqual(done.out.count("saved"), count, str(done))
        self.assertQuietOn(done, "left", "SIGKILL;", "needed")
        self.assertAllGone()

    def test_the_second_kills(self):
        for number, code in ENDING.items():
            with self.subTest(signal=number.name):
                job = self.ready("--grace", 600, WORKER, "stubborn")
                job.signal(number)
                job.wait_for(r"trainrun", "err")
                job.press(number, "again: killing")
                self.assertEnds(job.wait(), code)

    def test_one_press_that_comes_three_times_is_one(self):
        # timeout(1) hands on to its child what the terminal has sent to both, and to their whole group.
        job = self.start("600", TRAINRUN, "-np", "2", "--grace", "600", WORKER, "signals", "0", program="/usr/bin/timeout",
                         start_new_session=True)
        job.wait_for("ready", count=2)
        os.killpg(os.getpgid(job.pid), signal.SIGINT)
        done = job.wait()
        self.assertSays(done, "ended by SIGINT .*; 2 ranks ended after SIGTERM")
        self.assertQuietOn(done, "again: killing", "leaving at once")

    def test_three_at_once_leave_and_nothing_survives(self):
        job = self.ready("--grace", 600, WORKER, "stubborn", count=4)
        # One at a time: signals of one kind that arrive together are one signal.
        for answer in ("again to kill", "again: killing", "leaving at once"):
            job.press(signal.SIGINT, answer)
        self.assertEqual(job.wait().rc, 130)
        self.assertAllGone()

    def test_a_worker_that_ignores_term_is_killed_after_grace_and_it_is_said(self):
        job = self.ready("--grace", 1, WORKER, "stubborn")
        job.signal(signal.SIGTERM)
        self.assertSays(self.assertEnds(job.wait(), 143), r"^trainrun: ended by SIGTERM .* after the signal; 2 ranks needed SIGKILL$")

    def test_the_end_says_that_it_was_the_user(self):
        job = self.ready(WORKER, "wait")
        job.signal(signal.SIGINT)
        self.assertSays(self.assertEnds(job.wait(), 130), r"^trainrun: ended by SIGINT .* after the start; 2 ranks ended after SIGTERM$")

    def test_the_first_process_of_a_container_which_no_signal_kills_ends_with_the_code(self):
        job = self.start("--pid", "--fork", "--mount-proc", TRAINRUN, "-np", 2, WORKER, "signals", 0, program="unshare")
        job.wait_for("ready", count=2)
        inner = [pid for pid, command in self.processes() if command.startswith(TRAINRUN + " ")]
        os.kill(min(inner), signal.SIGTERM)
        done = self.assertEnds(job.wait(), 143)
        self.assertEqual(done.died_by, 0)
        self.assertSays(done, "ended by SIGTERM")

    def test_signals_before_any_worker_runs_end_it_too(self):
        for number, code in ENDING.items():
            with self.subTest(signal=number.name):
                job = self.start("-np", 2, WORKER, "wait", env={"TRAINRUN_FAULT": "agent.spawn=delay:500"})
                job.wait_until(lambda: len(self.processes()) > 1, "an agent is there")
                self.assertEqual(self.workers(), [], "the fault point held nobody back")
                job.signal(number)
                self.assertEnds(job.wait(), code)

    def test_no_rank_is_started_after_the_end_began_however_many_were_ordered(self):
        job = self.start("-np", 300, "--grace", 5, "sh", "-c", "echo here; exec sleep 600",
                         env={"TRAINRUN_FAULT": "agent.spawn=delay:20"})
        job.wait_for("here")
        job.signal(signal.SIGTERM)
        done = self.assertEnds(job.wait(), 143)
        self.assertSays(done, "[0-9]+ ranks never started")
        self.assertQuietOn(done, "stuck in the kernel", "lost with", r"SIGKILL( \(try.*)?$")
        self.assertAllGone()

    def test_nohup_keeps_a_job_alive(self):
        job = self.start("-c", 'trap "" HUP; exec "$0" "$@"', TRAINRUN, "-np", "2", WORKER, "signals", "0",
                         program="/bin/sh")
        job.wait_for("ready", count=2)
        job.signal(signal.SIGHUP)
        job.signal(signal.SIGUSR1)
        job.wait_for("got USR1", count=2)  # it is alive after the HUP that came before
        self.assertNotIn("got HUP", job.out)
        job.signal(signal.SIGTERM)
        self.assertEnds(job.wait(), 143)


    def test_signals_that_a_batch_system_sends_to_all_of_a_step_do_not_kill_the_ranks(self):
        for number, code in ((signal.SIGUSR2, 143), (signal.SIGHUP, 69), (signal.SIGQUIT, 69)):
            with self.subTest(signal=number.name):
                job = self.ready("--grace", 30, "sh", "-c", "trap 'echo saved > saved; exit' TERM; echo ready; "
                                 "while :; do sleep 0.1; done", count=1)
                watcher, agent = self.ours(job)
                for pid in (watcher, agent):
                    os.kill(pid, number)
                if number == signal.SIGUSR2:
                    job.wait_for("means nothing to this job", "err")
                    job.signal(signal.SIGTERM)
                self.assertEnds(job.wait(), code)
                self.assertAllGone()
                os.unlink(self.folder + "/saved")

    def ours(self, job):
        """Watcher and agent of this host."""
        found = {}
        for pid, _ in self.processes():
            with open(f"/proc/{pid}/comm") as file:
                found[file.read().strip()] = pid
        return found["trainrun-watch"], found["trainrun-agent"]


class Forwarding(LocalTest):
    def test_who_ignores_sigchld_for_us_costs_no_exit_code(self):
        job = self.start("-c", 'trap "" CHLD; exec "$0" "$@"', TRAINRUN, "-np", "2", WORKER, "exit", "5", program="/bin/sh")
        self.assertEnds(job.wait(), 5)

    def test_usr1_and_usr2_reach_every_worker(self):
        job = self.start("-np", 3, WORKER, "signals", 0)
        job.wait_for("ready", count=3)
        for number, name in ((signal.SIGUSR1, "USR1"), (signal.SIGUSR2, "USR2")):
            job.signal(number)
            job.wait_for("got " + name, count=3)
        job.signal(signal.SIGTERM)
        self.assertEnds(job.wait(), 143)

    def test_tstp_stops_workers_and_launcher_and_cont_goes_on(self):
        job = self.start("-np", 2, "--host-timeout", 2, WORKER, "burn")
        job.wait_for("ready", count=2)
        job.signal(signal.SIGTSTP)
        job.wait_until(lambda: self.state(job.pid) == "T", "the launcher stops")
        job.wait_until(lambda: all(self.state(pid) == "T" for pid, _ in self.workers()), "the workers stop")
        job.signal(signal.SIGCONT)
        job.wait_until(lambda: self.state(job.pid) != "T", "the launcher goes on")
        job.wait_until(lambda: all(self.state(pid) != "T" for pid, _ in self.workers()), "the workers go on")
        job.signal(signal.SIGTERM)
        self.assertEnds(job.wait(), 143)

    SILENT = ("-np", 2, "--host-timeout", 2, "--grace", 1)

    def test_a_host_that_is_silent_while_the_job_is_suspended_is_lost_all_the_same(self):
        job = self.start(*self.SILENT, WORKER, "burn")
        self.suspend_while_silent(job, job.wait)

    def test_what_is_lost_while_the_job_is_suspended_reaches_a_file(self):
        log = os.path.join(self.folder, "log")
        with open(log, "wb") as file:
            job = self.start(*self.SILENT, WORKER, "burn", stderr=file)

        def ended():
            done = job.wait()
            with open(log, "rb") as file:
                return Result(done.rc, b"", file.read(), job.command)

        self.suspend_while_silent(job, ended)

    def suspend_while_silent(self, job, ended):
        """^Z while the only host does not answer: the job ends for it, and tells it."""
        job.wait_for("ready", count=2)
        agent = self.parent(self.workers()[0][0])
        stopped = (self.parent(agent), agent)
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
            self.addCleanup(self.wake, pid)
        job.signal(signal.SIGTSTP)
        self.assertSays(self.assertEnds(ended(), 69), r"this host's agent .* was lost .* after the start: process \d+ .* gave no answer for [\d.]+ s")
        for pid in stopped:
            self.wake(pid)
        self.assertAllGone()

    def test_no_deadline_passes_while_the_job_is_stopped(self):
        for number in (signal.SIGTSTP, signal.SIGSTOP):
            with self.subTest(signal=number.name):
                job = self.start("-np", 1, "--host-timeout", 30, "--grace", 3, WORKER, "stubborn")
                job.wait_for("ready")
                job.signal(signal.SIGINT)
                job.wait_for("SIGKILL in 3.0 s", stream="err")
                job.signal(number)
                job.wait_until(lambda: self.state(job.pid) == "T", "the launcher stops")
                subprocess.run(["sleep", "6"], check=True)  # twice the grace: what must not count
                job.signal(signal.SIGCONT)
                done = self.assertEnds(job.wait(), 130)
                took = re.search(r"did not end within ([\d.]+) s of SIGTERM: SIGKILL", done.err)
                self.assertIsNotNone(took, str(done))
                self.assertGreaterEqual(float(took[1]), 3, str(done))
                self.assertLess(float(took[1]), 6, str(done))
                self.assertAllGone()

    def test_the_time_limit_is_real_time(self):
        job = self.start("-np", 1, "--timeout", 4, "--grace", 1, WORKER, "signals", 0)
        job.wait_for("ready")
        job.signal(signal.SIGTSTP)
        job.wait_until(lambda: self.state(job.pid) == "T", "the launcher stops")
        subprocess.run(["sleep", "5"], check=True)
        job.signal(signal.SIGCONT)
        job.wait_for("got TERM")
        self.assertEnds(job.wait(), 124)

    def test_a_launcher_that_was_stopped_for_too_long_blames_no_host(self):
        job = self.start("-np", 2, "--host-timeout", 1, "--grace", 1, WORKER, "burn")
        job.wait_for("ready", count=2)
        agent = self.parent(self.workers()[0][0])
        job.signal(signal.SIGSTOP)
        job.wait_until(lambda: self.state(agent) == "gone", "the agent gives the launcher up")
        job.signal(signal.SIGCONT)
        done = self.assertEnds(job.wait(), 69)
        self.assertSays(done, r"trainrun stood still for [\d.]+ s, and the agent there gave it up after --host-timeout, 1.0 s")
        self.assertQuietOn(done, "was lost")
        self.assertAllGone()

    @staticmethod
    def wake(pid):
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass

    @staticmethod
    def parent(pid):
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rsplit(") ", 1)[1].split()[1])

    @staticmethod
    def state(pid):
        try:
            with open(f"/proc/{pid}/stat") as file:
                return file.read().rsplit(") ", 1)[1][0]
        except OSError:
            return "gone"


if __name__ == "__main__":
    main()
