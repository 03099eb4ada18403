"""How a local job ends: exit codes, and the words at the end."""
import contextlib
import os
import re
import resource
import signal
import socket
import subprocess
import unittest

from harness import DEADLINE, SOAK, TRAINRUN, WORKER, LocalTest, main


class ExitCodes(LocalTest):
    def test_all_ranks_end_well_and_so_does_the_job_in_silence(self):
        done = self.assertEnds(self.run_job("-np", 4, WORKER, "exit", 0), 0)
        self.assertEqual(done.out, "")
        self.assertEqual(done.err, "")

    def test_the_code_of_the_rank_that_failed_is_the_code_of_the_job(self):
        for code in (1, 2, 3, 69, 100, 127, 254, 255):
            with self.subTest(code=code):
                self.assertEnds(self.run_job("-np", 3, WORKER, "on", 1, "exit", code, "--", "wait"), code)

    def test_a_signal_counts_128_more(self):
        for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL, signal.SIGUSR1, signal.SIGTERM):
            with self.subTest(signal=number.name):
                done = self.run_job("-np", 2, WORKER, "on", 1, "die", int(number), "--", "wait")
                self.assertEnds(done, 128 + number)
                self.assertSays(done, r"rank 1\b", number.name)

    def test_exit_9_is_not_told_as_sigkill(self):
        done = self.assertEnds(self.run_job("-np", 2, WORKER, "on", 0, "exit", 9, "--", "wait"), 9)
        self.assertQuietOn(done, "SIGKILL")

    def test_the_first_failure_counts_not_those_that_it_caused(self):
        # Rank 2 fails; the others end with another code when they are told to end.
        done = self.run_job("-np", 4, WORKER, "on", 2, "err", "disk is full", 5, "--", "signals", 77)
        self.assertEnds(done, 5)
        self.assertSays(done, r"^trainrun: rank 2 on \S+ exited with code 5, ", r"^  last words +.*disk is full$")

    def test_a_rank_that_lost_its_peer_is_not_blamed_when_the_peer_takes_longer_to_end(self):
        # As Gloo's ranks do, when the one that failed closes its connections and then saves its logs.
        script = ('if [ "$RANK" = 0 ]; then echo "RuntimeError: Connection closed by peer" >&2; exit 1; fi; '
                  'trap "" TERM; while [ -e /proc/$(cat pid) ]; do :; done; sleep 0.3; echo "ValueError: NaN" >&2; exit 7')
        first = 'echo $$ > pid.new; mv pid.new pid; '
        done = self.assertEnds(self.run_job("-np", 2, "sh", "-c", f'if [ "$RANK" = 0 ]; then {first} fi; '
                                            f'while ! [ -e pid ]; do :; done; {script}', cwd=self.folder), 7)
        self.assertSays(done, "rank 1 on .* exited with code 7", "last words +ValueError: NaN",
                        "also failed rank 0 on .* exited with code 1, having lost a peer")

    def test_more_ranks_than_the_system_allows_processes_are_refused_with_75(self):
        with open("/proc/sys/kernel/pid_max") as file:
            most = int(file.read())
        if most > 100_000:
            self.skipTest(f"kernel.pid_max is {most} here: too many ranks to plan for a test")
        done = self.assertEnds(self.run_job("-np", most + 1, "true"), 75)
        self.assertSays(done, f"{most + 1} ranks are as many processes, and .* allows", "nothing was started")

    def test_a_limit_on_processes_that_lets_nothing_start_is_told(self):
        if os.geteuid() != 0:
            self.skipTest("the limit does not bind root, and only root can become another user")
        for most in range(1, 7):
            with self.subTest(processes=most):
                err = os.path.join(self.folder, f"err{most}")  # a file, which otherwise has a thread
                job = self.start("-c", f'ulimit -u {most}; exec setpriv --reuid 65533 --regid 65533 --clear-groups "$@" 2> {err}', "bash",
                                 TRAINRUN, "--wdir", "/", "-np", 4, "sleep", "60", program="/bin/bash", env={"ASAN_OPTIONS": "detect_leaks=0"})
                self.assertEqual(job.wait().rc, 75)
                with open(err) as file:
                    self.assertRegex(file.read(), "Resource temporarily unavailable|limit on processes|ulimit -u allows")

    def test_the_last_words_name_rank_host_pid_and_how_it_ended(self):
        done = self.assertEnds(
            self.run_job("-np", 2, WORKER, "on", 1, "err", "cannot open train.bin", 4, "--", "wait"), 4)
        here = re.escape(os.uname().nodename)
        self.assertSays(done, rf"^trainrun: rank 1 on {here} exited with code 4, ", rf"^  first +rank 1  host {here}  pid \d+", "cannot open train.bin")
        self.assertIn("rank 1", done.err[done.err.rindex("trainrun"):], "the cause is what is printed last")

    def test_an_early_good_end_of_one_rank_does_not_end_the_others(self):
        done = self.run_job("-np", 3, WORKER, "on", 0, "exit", 0, "--", "lines", 3)
        self.assertEnds(done, 0)
        self.assertEqual(len(done.out.splitlines()), 6)

    def test_a_program_that_does_not_exist_is_127_and_named(self):
        for program in ("./no-such-program", "no-such-program", "/no/such/program"):
            with self.subTest(program=program):
                done = self.assertEnds(self.run_job("-np", 2, program), 127)
                self.assertSays(done, r"^trainrun: program '\S*no.such.program' not found")

    def test_a_program_that_cannot_be_executed_is_126_and_named(self):
        path = self.folder + "/not-executable"
        with open(path, "w") as file:
            file.write("#!/bin/sh\n")
        done = self.assertEnds(self.run_job("-np", 2, path), 126)
        self.assertSays(done, "program '.*/not-executable' is not executable")
        self.assertEnds(self.run_job("-np", 1, "/tmp"), 126)
        device = self.assertEnds(self.run_job("-np", 1, "/dev/null"), 126)
        self.assertSays(device, "program '/dev/null' is a device, a pipe or a socket, not a file")

    def test_a_script_whose_interpreter_is_missing_says_so(self):
        path = self.folder + "/script"
        with open(path, "w") as file:
            file.write("#!/no/such/interpreter\n")
        os.chmod(path, 0o755)
        done = self.assertEnds(self.run_job("-np", 1, path), 127)
        self.assertSays(done, "/script' cannot run: its interpreter '/no/such/interpreter' does not exist")

    def test_a_missing_directory_is_an_error_and_never_home(self):
        done = self.run_job("-np", 2, "--wdir", "/no/such/directory", WORKER, "lines", 1)
        self.assertSays(self.assertEnds(done, 2), "the working directory '/no/such/directory' does not exist")
        self.assertEqual(done.out, "")

    def test_usage_errors_are_2_and_nothing_is_run(self):
        marker = self.folder + "/ran"
        for words in (["--no-such-flag"], ["-np", "0"], ["-np", "x"], ["-np", "-1"], ["-np"], ["--tag", "loud"],
                      ["-H", "a b"], ["-H", "-oProxyCommand=x"], ["--grace", "soon"], ["--config", "/no/such.toml"]):
            with self.subTest(words=words):
                done = self.run_job(*words, "touch", marker)
                self.assertEnds(done, 2)
                self.assertFalse(os.path.exists(marker), str(done))
        self.assertEnds(self.run_job(), 2)

    def test_an_unknown_flag_suggests_the_nearest(self):
        self.assertSays(self.assertEnds(self.run_job("--hostfil", "x", "true"), 2), "unknown flag '--hostfil'", "did you mean --hostfile")

    def test_a_time_out_is_124_and_says_so(self):
        done = self.assertEnds(self.run_job("-np", 2, "--timeout", "1", WORKER, "wait"), 124)
        self.assertSays(done, r"^trainrun: the time limit passed \(--timeout 1\.0 s\); 2 ranks ended after SIGTERM$")

    def test_a_host_that_does_not_answer_is_named_while_it_is_waited_for(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            job = self.start("--transport", "ssh", "--ssh-port", silent.getsockname()[1], "-H", "127.0.0.1", "true")
            job.wait_for(r"^trainrun: waiting for hosts: 127.0.0.1 .connecting, [5-9]\.\d s.; giving up within .*--start-timeout",
                         stream="err")
            job.signal(signal.SIGINT)
            self.assertEnds(job.wait(), 130)

    def test_a_rank_that_prints_its_exception_when_the_first_has_failed_is_no_victim_of_sigterm(self):
        script = ('if [ $RANK = 0 ]; then until [ -e said ]; do sleep 0.1; done; exit 3; fi; '
                  'printf "Traceback (most recent call last):\\n  File x\\nValueError: x\\n" >&2; touch said; exec sleep 600')
        done = self.assertEnds(self.run_job("-np", 2, "sh", "-c", script), 3)
        self.assertSays(done, "then +1 rank raised an exception too$")

    def test_what_a_rank_leaves_in_the_background_is_ended_and_that_is_said(self):
        for left, name in (("sleep 60 &", "sleep"), ("setsid sleep 60 < /dev/null > /dev/null 2>&1 &", r"\w+")):
            with self.subTest(left=left):
                done = self.assertEnds(self.run_job("-np", 1, "sh", "-c", left), 0)
                self.assertSays(done, rf"^trainrun: rank 0 on \S+ ended and left 1 process \({name}\) behind, which was ended$")
        self.assertEqual(self.assertEnds(self.run_job("-q", "-np", 1, "sh", "-c", "sleep 60 &"), 0).err, "")

    def test_what_ends_with_its_rank_by_itself_was_not_left_behind(self):
        helpers = ("import os, subprocess\nfor _ in range(8):\n"
                   "  subprocess.Popen(['cat'], stdin=subprocess.PIPE, start_new_session=True)\nos._exit(0)")
        done = self.run_job("-np", 1, "/usr/bin/python3", "-c", helpers)
        self.assertQuietOn(self.assertEnds(done, 0), "trainrun")

    def test_grace_passes_before_the_kill_and_the_kill_is_said(self):
        script = '[ $RANK != 1 ] || { until [ -e go ]; do sleep 0.1; done; exit 6; }; exec "$0" stubborn'
        job = self.start("-np", 3, "--grace", "2", "sh", "-c", script, WORKER)
        job.wait_for("ready", count=2)  # from then on TERM does not end them
        with open(os.path.join(self.folder, "go"), "wb"):
            pass
        done = self.assertEnds(job.wait(), 6)
        self.assertSays(done, "exited with code 6; ending 2 ranks: SIGKILL in", r"SIGTERM: SIGKILL .try: --grace 60s.$")

    def test_the_reader_of_our_stdout_goes_away_and_the_job_drains_with_141(self):
        job = self.start("-np", 2, "--grace", "2", WORKER, "lines", 10000000, 100)
        job.wait_for("0:100:")
        job.stop_reading()
        job.process.stdout.close()
        done = self.assertEnds(job.wait(), 141)
        self.assertLessEqual(len([line for line in done.err.splitlines() if line.strip()]), 2, str(done))

    def test_a_full_disk_under_our_stdout_does_not_end_the_job_but_is_no_success(self):
        with open("/dev/full", "wb") as full:
            done = self.assertEnds(self.run_job("-np", 2, WORKER, "lines", 1000, 100, stdout=full), 74)
        self.assertSays(done, r"^trainrun: \d+ bytes of output could not be written$")
        with open("/dev/full", "wb") as full:  # what went wrong first says more
            self.assertEnds(self.run_job("-np", 2, WORKER, "on", 1, "exit", 5, "--", "lines", 10, stdout=full), 5)
        with open("/dev/full", "wb") as full:
            done = self.assertEnds(self.run_job("-np", 2, WORKER, "lines", 1000, 100, stdout=full), 74)
        self.assertEqual(done.err.count("stdout: No space left on device; output is dropped"), 1, str(done))

    def test_a_full_disk_under_a_log_does_not_end_the_job_but_is_no_success(self):
        small = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (50000, 50000))
        done = self.assertEnds(self.run_job("-np", 2, "--output-filename", self.folder + "/logs", WORKER, "lines", 1000, 100,
                                            preexec_fn=small), 74)
        self.assertEqual(done.err.count("/stdout: File too large; output is dropped"), 1, str(done))
        self.assertEqual(len(done.out.splitlines()), 2000)

    def test_a_job_that_may_write_no_file_is_told_so(self):
        none = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        done = self.run_job("-np", 2, "true", preexec_fn=none)
        self.assertSays(self.assertEnds(done, 69), "File too large")

    def test_the_last_words_of_a_python_rank_are_its_exception(self):
        with open(self.folder + "/train.py", "w") as file:
            file.write("def load():\n  try:\n    open('/no/such/file')\n  except OSError as why:\n"
                       "    raise RuntimeError('cannot load') from why\nload()\n")
        done = self.assertEnds(self.run_job("-np", 1, "train.py"), 1)
        self.assertSays(done, "^  last words  RuntimeError: cannot load$")
        self.assertNotIn("              ", done.err)

    def test_it_runs_python_scripts_that_are_not_executable_and_modules(self):
        with open(self.folder + "/hello.py", "w") as file:
            file.write("import os\nprint('script', os.environ['RANK'])\n")
        done = self.assertEnds(self.run_job("-np", 2, "hello.py"), 0)
        self.assertEqual(sorted(done.out.splitlines()), ["[0] script 0", "[1] script 1"])
        self.assertEqual(done.err, "")
        self.assertSays(self.assertEnds(self.run_job("-v", "-np", 2, "hello.py"), 0), "python3")
        done = self.assertEnds(self.run_job("-np", 1, "-m", "hello"), 0)
        self.assertIn("script 0", done.out)

    def test_version_and_help_go_to_stdout_and_are_0(self):
        self.assertIn("trainrun", self.assertEnds(self.run_job("--version"), 0).out)
        self.assertIn("-np", self.assertEnds(self.run_job("--help"), 0).out)

    def test_64_short_ranks_never_hang(self):
        for _ in range(200 if SOAK else 5):
            self.assertEnds(self.run_job("-np", 64, "/bin/true"), 0)

    def test_an_allocation_without_end_in_a_memory_cgroup_is_told_as_out_of_memory(self):
        group = self.memory_cgroup(limit=64 << 20)
        job = self.start("-np", 2, "--grace", "2", "sh", "-c", f'[ "$RANK" = 0 ] && echo $$ > {group}/cgroup.procs; '
                         f'exec {WORKER} on 0 memory -- wait')
        done = self.assertEnds(job.wait(DEADLINE), 137)
        self.assertSays(done, r"^trainrun: rank 0 on \S+ was killed by (SIGKILL, perhaps by )?the kernel: out of memory")

    def test_a_shell_whose_program_met_the_limit_is_told_so_too(self):
        group = self.memory_cgroup(limit=64 << 20)
        for end, code in (("exit $?", 137), ("[ $? = 137 ] && exit 247", 247)):
            with self.subTest(code=code):
                done = self.run_job("-np", 2, "sh", "-c", '[ "$RANK" = 1 ] && exec "$0" wait; '
                                    f'echo $$ > {group}/cgroup.procs && "$0" memory; {end}', WORKER)
                self.assertSays(self.assertEnds(done, code), r"rank 0\b.* exited with code", "(?i)out of memory",
                                "  evidence ")

    def test_a_kill_by_hand_is_not_told_as_out_of_memory_because_another_program_met_the_limit(self):
        group = self.memory_cgroup(limit=400 << 20)  # sanitizers need much
        job = self.start("-c", f'echo $$ > {group}/cgroup.procs; exec "$0" "$@"', TRAINRUN, "-np", 1, "--grace", 2, WORKER,
                         "wait", program="/bin/sh")
        pid = int(job.wait_for(r"ready \d+")[0].split()[1])
        neighbour = subprocess.run(["sh", "-c", f"echo $$ > {group}/cgroup.procs; exec {WORKER} memory"])
        self.assertEqual(neighbour.returncode, -signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
        done = self.assertEnds(job.wait(), 137)
        # Where the kernel's log cannot be read nobody knows.
        certain = r"by SIGKILL, not sent by trainrun" if os.access("/dev/kmsg", os.R_OK) else r"by SIGKILL, perhaps by the kernel"
        self.assertSays(done, r"rank 0\b.* was killed " + certain)

    def test_two_jobs_do_not_get_one_port(self):
        first = self.three_free_ports()
        words = ("-np", 1, "--port-range", f"{first}-{first + 2}", "sh", "-c")
        job = self.start(*words, f'echo "port $MASTER_PORT"; exec {WORKER} wait')
        job.wait_for("ready")
        done = self.assertEnds(self.run_job(*words, 'echo "port $MASTER_PORT"'), 75)
        self.assertSays(done, "cannot reserve a port for MASTER_PORT: Address already in use")
        job.signal(signal.SIGTERM)
        self.assertEnds(job.wait(), 143)
        self.assertEnds(self.run_job(*words, "true"), 0)

    def test_a_range_of_one_port_is_rank_0s_and_a_restart_has_it_again(self):
        port = self.three_free_ports()
        listen = ("import os, socket, sys\nlistener = socket.create_server(('', int(os.environ['MASTER_PORT'])))\n"
                  "socket.create_connection(listener.getsockname())\nlistener.accept()\n"
                  "print('port', os.environ['MASTER_PORT'])\nsys.exit(os.environ['TRAINRUN_GENERATION'] == sys.argv[1])\n")
        words = ("-np", 1, "--port-range", f"{port}-{port}")
        done = self.run_job(*words, "--max-restarts", 1, "python3", "-c", listen, 1)
        self.assertEqual(re.findall(r"port (\d+)", self.assertEnds(done, 0).out), [str(port)] * 2)
        for last in (port, port + 1):
            done = self.run_job("-np", 1, "--port-range", f"{port}-{last}", "--master-port", port, "python3", "-c", listen, 0)
            self.assertEnds(done, 0)
        with socket.create_server(("", port)):
            done = self.assertEnds(self.run_job(*words, "true"), 75)
        self.assertSays(done, rf"cannot reserve a port for MASTER_PORT: Address already in use .--port-range {port}.",
                        "try +widen --port-range")

    @staticmethod
    def three_free_ports():
        """Below those that the system gives out by itself."""
        for first in range(20000 + os.getpid() % 5000, 30000, 3):
            with contextlib.ExitStack() as stack:
                try:
                    for port in range(first, first + 3):
                        stack.enter_context(socket.socket()).bind(("0.0.0.0", port))
                    return first
                except OSError:
                    continue
        raise AssertionError("no three free ports")

    def memory_cgroup(self, limit):
        for base, name in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
            group = f"{base}/trainrun-test-{self.mark}"
            try:
                os.mkdir(group)
                self.addCleanup(os.rmdir, group)
                with open(f"{group}/{name}", "w") as file:
                    file.write(str(limit))
                return group
            except OSError:
                continue
        raise unittest.SkipTest("there is no memory cgroup that can be made here")


# As torch's @record writes it; what is in it may be anything.
RECORDS = r"""
import json, os, sys
if os.environ["RANK"] == "1":
    with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
        json.dump({"message": {"message": "ValueError: bad \x1b[31mbatch", "extraInfo": {"py_callstack":
                   'Traceback\n  File "/home/u/train.py", line 12, in step\n    x\n', "timestamp": "1"}}}, file)
    sys.exit(1)
open("go").read()
"""


class Recorded(LocalTest):
    def test_the_exception_that_a_rank_recorded_is_the_cause(self):
        os.mkfifo(self.folder + "/go")
        done = self.assertEnds(self.run_job("-np", 2, "python3", "-c", RECORDS), 1)
        self.assertSays(done, r"^trainrun: rank 1 on .* exited with code 1", r"^  exception   ValueError: bad \S*batch$",
                        r"^              at /home/u/train.py:12, in step$")
        self.assertNotIn("\x1b", done.err)


if __name__ == "__main__":
    main()
