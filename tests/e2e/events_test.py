"""--events: what happens to a job, as lines of JSON, for a program that watches it."""
import json
import os
import signal
import time

from harness import WORKER, LocalTest, main
from training import Training


class EventsTest(Training, LocalTest):
    def setUp(self):
        super().setUp()
        self.file = self.folder + "/events.jsonl"

    def lines(self, path=None):
        with open(path or self.file, encoding="utf-8") as file:
            return [json.loads(line) for line in file.read().splitlines()]

    def names(self):
        return [line["event"] for line in self.lines()]

    def check_frame(self, lines, code, outcome):
        """The first and the last line, and what each has."""
        first, last = lines[0], lines[-1]
        self.assertEqual((first["event"], first["schema"]), ("job_started", 1))
        self.assertEqual((last["event"], last["exit_code"], last["outcome"]), ("job_ended", code, outcome))
        self.assertEqual([line["event"] for line in lines].count("job_ended"), 1)
        for line in lines:
            self.assertRegex(line["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
            if line is not first:
                self.assertIn("generation", line)
        since = [line["since_start"] for line in lines]
        self.assertEqual(since, sorted(since))
        return last

    def test_a_job_that_goes_well(self):
        done = self.assertEnds(self.run_job("-np", 2, "--events", "events.jsonl", WORKER, "lines", 1), 0)
        last = self.check_frame(self.lines(), 0, "success")
        self.assertNotIn("cause", last)
        self.assertEqual(self.lines()[0]["ranks"], 2)
        self.assertEqual(done.err, "", "it says nothing more than without")

    def test_they_lie_in_the_folder_that_the_logs_are_about_to_make(self):
        done = self.assertEnds(self.run_job("-np", 1, "--output-filename", "new/logs/", "--events", "new/logs/ev", "--journal", "new/logs/j",
                                            "true"), 0)
        self.assertNotIn("goes on without it", done.err)
        self.assertEqual({"ev", "j", "latest"} - set(os.listdir(self.folder + "/new/logs")), set())

    def test_a_success_whose_output_was_lost_is_none(self):
        with open("/dev/full", "wb") as full:
            job = self.start("-np", 1, "--events", self.file, "echo", "x", stdout=full)
        self.assertEnds(job.wait(), 74)
        self.check_frame(self.lines(), 74, "output_lost")

    def test_a_job_that_cannot_start_has_a_last_line(self):
        self.assertEnds(self.run_job("-np", 1, "--events", self.file, "--output-filename", "/proc/x", "true"), 2)
        self.assertIn("/proc/x", self.check_frame(self.lines(), 2, "unfinished")["text"])

    def test_the_rank_that_failed_is_named_with_host_pid_and_status(self):
        done = self.assertEnds(self.run_job("-np", 3, "--events", self.file, "sh", "-c",
                                            f"[ $RANK = 1 ] && {{ echo no room >&2; exit 7; }}; exec {WORKER} when {self.folder}/never exit 0"), 7)
        last = self.check_frame(self.lines(), 7, "worker_failed")
        cause = last["cause"]
        self.assertEqual((cause["kind"], cause["rank"], cause["status"]["exit_code"]), ("rank_failed", 1, 7))
        self.assertEqual(cause["last_words"], "no room")
        self.assertIn(f"rank 1  host {cause['host']}  pid {cause['pid']} ", done.err)
        self.assertEqual(last["others"]["terminated"], 2)
        self.assertIn(last["text"].splitlines()[0], done.err.splitlines())

    def test_restarts_and_generations(self):
        job = self.start("-np", 2, "--on-failure", "restart-world", "--grace", 1, "--settle", "100ms", "--events", self.file,
                         *self.train())
        victim = self.await_generation(job, 1)[1]["pid"]
        os.kill(victim, signal.SIGKILL)
        self.await_generation(job, 2)
        self.finish()
        self.assertEnds(job.wait(), 0)
        lines = self.lines()
        last = self.check_frame(lines, 0, "success")
        self.assertEqual(last["restarts"], 1)
        by_name = {line["event"]: line for line in lines}
        restart = by_name["restarting"]
        self.assertEqual((restart["generation"], restart["cause"]["pid"]), (1, victim))
        self.assertEqual(restart["cause"]["status"]["signal"], "SIGKILL")
        formed = [line for line in lines if line["event"] == "generation_formed"]
        self.assertEqual([line["generation"] for line in formed], [1, 2])
        self.assertEqual(formed[1]["cause"]["rank"], 1)

    def test_a_line_is_there_when_it_happens(self):
        job = self.start("-np", 1, "--events", self.file, WORKER, "when", self.folder + "/go", "exit", 0)
        job.wait_for("waiting")
        job.wait_until(lambda: any(line.get("to") == "running" for line in self.lines()), "the phase is in the file")
        self.assertNotIn("job_ended", self.names())
        open(self.folder + "/go", "w").close()
        self.assertEnds(job.wait(), 0)
        self.assertEqual(self.names()[-1], "job_ended")

    def test_a_signal(self):
        job = self.start("-np", 2, "--events", self.file, WORKER, "when", self.folder + "/never", "exit", 0)
        job.wait_for("waiting", count=2)
        job.signal(signal.SIGTERM)
        self.assertEnds(job.wait(), 143)
        last = self.check_frame(self.lines(), 143, "user_signal")
        self.assertEqual(last["cause"], {"kind": "end_asked", "signal": int(signal.SIGTERM), "by_ctl": False})
        self.assertIn("end_requested", self.names())

    def test_a_descriptor_that_was_inherited(self):
        reader, writer = os.pipe()
        job = self.start("-np", 2, "--events", f"fd:{writer}", "sh", "-c", "ls /proc/self/fd | wc -l", pass_fds=[writer])
        os.close(writer)
        done = self.assertEnds(job.wait(), 0)
        with open(reader, encoding="utf-8") as pipe:
            lines = [json.loads(line) for line in pipe]  # to its end: nobody holds it
        self.check_frame(lines, 0, "success")
        plain = self.assertEnds(self.run_job("-np", 2, "sh", "-c", "ls /proc/self/fd | wc -l"), 0)
        self.assertEqual(sorted(done.out.splitlines()), sorted(plain.out.splitlines()), "ranks do not inherit it")

    def test_lines_are_added_to_what_is_there(self):
        for code in (0, 3):
            self.assertEnds(self.run_job("-np", 1, "--events", self.file, "sh", "-c", f"exit {code}"), code)
        self.assertEqual([line["exit_code"] for line in self.lines() if line["event"] == "job_ended"], [0, 3])

    def test_what_cannot_be_written_is_told_once_and_the_job_goes_on(self):
        for target, why in (("/nosuchfolder/events", "No such file"), ("fd:55", "Bad file descriptor"),
                            ("/dev/full", "No space left"), (self.folder, "Is a directory")):
            with self.subTest(target=target):
                done = self.assertEnds(self.run_job("-np", 1, "-q", "--events", target, "echo", "here"), 0)
                self.assertEqual(done.out, "here\n")
                self.assertSays(done, rf"^trainrun: --events: .*{why}.*; the job goes on without it$")
                self.assertEqual(done.err.count("--events"), 1)

    def test_a_reader_that_takes_nothing_does_not_keep_the_job(self):
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        try:
            while True:
                os.write(writer, b"x" * 4096)
        except BlockingIOError:
            pass
        started = time.monotonic()
        done = self.assertEnds(self.run_job("-np", 2, "--grace", 1, "--events", f"fd:{writer}", "echo", "here",
                                            pass_fds=[writer]), 0)
        self.assertSays(done, "did not take its end in time")
        self.assertLess(time.monotonic() - started, 50, "of a second, which is --grace")
        # The same where our last line goes to a file that is slow.
        with open(self.folder + "/err", "w+") as err:
            slow = self.start("-np", 1, "--grace", 1, "--events", f"fd:{writer}", "true", pass_fds=[writer], stderr=err,
                              env={"TRAINRUN_FAULT": "output.file=delay:300"})
            self.assertEnds(slow.wait(), 0)
            err.seek(0)
            self.assertIn("did not take its end in time", err.read())
        os.close(reader)
        os.close(writer)

    def test_stdout_is_the_ranks(self):
        for target in ("-", "fd:1", "fd:2"):
            done = self.assertEnds(self.run_job("-np", 1, "--events", target, "true"), 2)
            self.assertSays(done, "stdin, stdout and stderr are the ranks'")

    def test_a_dry_run_makes_no_file(self):
        self.assertEnds(self.run_job("--dry-run", "-np", 1, "--events", self.file, "true"), 0)
        self.assertFalse(os.path.exists(self.file))


if __name__ == "__main__":
    main()
