"""Who reads what a job prints: slowly, not any more, or never."""
import errno
import fcntl
import json
import os
import pty
import re
import signal
import termios
import time
import unittest
import zlib

from harness import DEADLINE, TRAINRUN, WORKER, LocalTest, main

NOBODY = 65534
BOTH = """
import os
rank = os.environ["RANK"]
for i in range(4000):
    os.write(1, f"O{rank}-{i:06d}-{'o' * 180}-END\\n".encode())
    os.write(2, f"E{rank}-{i:06d}-{'e' * 180}-END\\n".encode())
"""


def as_nobody():
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


class ReaderTest(LocalTest):
    def unread(self, *words, **options):
        """A job whose stdout is read by nobody but the test."""
        job = self.start(*words, **options)
        job.stop_reading()
        os.set_blocking(job.process.stdout.fileno(), True)
        return job

    def ended_but_unread(self, *words, code=0):
        """One whose ranks and agents are gone, and whose last output waits."""
        over = self.folder + "/over"
        job = self.unread(*words, "-np", 1, "sh", "-c",
                          f"head -c 1000000 /dev/zero | tr '\\0' x; : >{over}; exit {code}")
        job.wait_until(lambda: job.ended or os.path.exists(over) and [pid for pid, _ in self.processes()] == [job.pid],
                       "the launcher alone is left", timeout=30)
        self.assertFalse(job.ended, job.result_so_far())
        return job


class Stalled(ReaderTest):
    """A reader that is there and takes nothing."""

    def test_a_second_signal_leaves_though_the_last_output_waits(self):
        job = self.ended_but_unread("--grace", 100)
        job.press(signal.SIGTERM, "SIGTERM: waiting 1m40s for output to be read")
        job.signal(signal.SIGINT)
        done = self.assertEnds(job.wait(timeout=30), 143)
        self.assertSays(done, r"^trainrun: \d+ bytes of output could not be written: nobody read it in time$")

    def test_the_first_signal_gives_it_the_grace_and_is_what_a_shell_hears(self):
        events = os.path.join(self.folder, "events")
        job = self.ended_but_unread("--grace", 2, "--events", events)
        job.press(signal.SIGINT, r"SIGINT: waiting 2\.0 s for output to be read \(again to leave now\)")
        done = self.assertEnds(job.wait(timeout=30), 130)
        self.assertEqual(done.died_by, signal.SIGINT)
        self.assertSays(done, "nobody read it in time$", r"^trainrun: ended by SIGINT .* after the start")

        def said():
            with open(events, encoding="utf-8") as file:
                return file.readlines()
        job.wait_until(lambda: '"job_ended"' in said()[-1], "the last event")  # a thread writes them
        last = json.loads(said()[-1])
        self.assertEqual((last["event"], last["exit_code"], last["outcome"]), ("job_ended", 130, "user_signal"))

    def test_a_signal_after_a_failure_does_not_hide_it(self):
        job = self.ended_but_unread("--grace", 1, code=3)
        job.signal(signal.SIGTERM)
        self.assertSays(self.assertEnds(job.wait(timeout=30), 3), r"^trainrun: rank 0 on \S+ exited with code 3")

    def test_the_time_limit_counts(self):
        job = self.ended_but_unread("--grace", 1, "--timeout", 6)
        self.assertEnds(job.wait(timeout=30), 74)

    def test_a_job_that_prints_without_end_is_over_a_little_after_grace(self):
        job = self.unread("--grace", 2, "-np", 2, "yes")
        job.wait_until(lambda: job.ended or len(self.processes("yes")) >= 2, "the ranks run")
        job.signal(signal.SIGTERM)
        done = self.assertEnds(job.wait(timeout=30), 143)
        self.assertSays(done, r"nobody read it in time$", r"^trainrun: ended by SIGTERM ")

    def test_a_third_signal_leaves_at_once(self):
        job = self.unread("--grace", 600, "-np", 2, "sh", "-c", "trap '' TERM; yes")
        job.wait_until(lambda: job.ended or len(self.processes("yes")) >= 2, "the ranks run")
        for answer in ("again to kill", "killing", "leaving at once"):
            job.press(signal.SIGTERM, answer)
        self.assertEnds(job.wait(timeout=30), 143)

    def test_a_failure_is_told_though_the_output_waits(self):
        events = os.path.join(self.folder, "events")
        job = self.ended_but_unread("--events", events, code=3)
        job.wait_for(r"^trainrun: rank 0 on \S+ exited with code 3, .* after the start; \d+ bytes of output wait for their reader", "err")

        def said():
            with open(events, encoding="utf-8") as file:
                return file.readlines()
        job.wait_until(lambda: '"job_ended"' in said()[-1], "the last event")  # a thread writes them
        last = json.loads(said()[-1])
        self.assertEqual((last["event"], last["exit_code"], last["outcome"]), ("job_ended", 3, "worker_failed"))
        job.process.stdout.close()
        self.assertEqual(self.assertEnds(job.wait(), 3).err.count("exited with code 3"), 2)
        self.assertEqual("".join(said()).count("job_ended"), 1)

    def test_a_reader_that_reads_on_gets_all(self):
        job = self.ended_but_unread("--grace", 1)
        total = 0
        while data := os.read(job.process.stdout.fileno(), 65536):
            total += len(data)
        self.assertEqual(total, 1000000)
        self.assertEnds(job.wait(), 0)


class Gone(ReaderTest):
    def test_a_reader_that_leaves_early_is_always_141(self):
        for turn in range(12):
            with self.subTest(turn=turn):
                job = self.unread("-np", 1, "seq", 20000)
                self.assertEqual(os.read(job.process.stdout.fileno(), 2), b"1\n")
                job.process.stdout.close()
                done = self.assertEnds(job.wait(), 141)
                self.assertSays(done, r"^trainrun: .*nobody reads (it|the output) any more \(as with \| head\)")

    def test_one_that_leaves_when_the_ranks_are_gone_is_141_and_told(self):
        job = self.ended_but_unread()
        job.process.stdout.close()
        done = self.assertEnds(job.wait(), 141)
        self.assertSays(done, r"^trainrun: \d+ bytes of output could not be written: nobody reads it any more")

    def stderr_begun(self, *words):
        """A job of which something on stderr was read, and nothing more is by anybody but the test."""
        job = self.start(*words)
        job.stop_reading(job.process.stderr)
        for stream in (job.process.stdout, job.process.stderr):
            os.set_blocking(stream.fileno(), True)
        self.assertTrue(os.read(job.process.stderr.fileno(), 100))
        return job

    def test_both_readers_leave_a_job_that_prints_on_stderr_alone(self):
        job = self.stderr_begun("-np", 2, "sh", "-c", "while echo still training >&2; do sleep 0.1; done")
        job.process.stderr.close()
        job.process.stdout.close()
        self.assertEqual(job.process.wait(DEADLINE), 141)

    def test_one_leaves_long_before_the_other(self):
        """In between the ranks write, and only to the stream that nobody reads."""
        job = self.stderr_begun("-np", 1, "sh", "-c", "while echo x >&2; do sleep 0.1; [ ! -e left ] || echo >> lines; done")
        job.process.stderr.close()
        with open(self.folder + "/left", "w", encoding="ascii"):
            pass
        lines = self.folder + "/lines"
        job.wait_until(lambda: os.path.exists(lines) and os.path.getsize(lines) > 3, "the rank has written more")
        self.assertIsNone(job.process.poll(), "stdout has its reader")
        job.process.stdout.close()
        self.assertEqual(job.process.wait(DEADLINE), 141)

    def test_one_of_stderr_alone_does_not_end_it(self):
        job = self.stderr_begun("-np", 1, "sh", "-c", "for i in 1 2 3 4 5; do echo e >&2; echo $i; sleep 0.1; done")
        job.process.stderr.close()
        self.assertEqual(job.process.stdout.read(), b"1\n2\n3\n4\n5\n")
        self.assertEqual(job.process.wait(DEADLINE), 74)

    def test_a_rank_that_fails_says_more(self):
        job = self.ended_but_unread(code=3)
        job.process.stdout.close()
        self.assertEnds(job.wait(), 3)


class OneFileForBoth(LocalTest):
    """`2>&1`, as in nearly every log of a batch system."""

    def both(self, *words, **options):
        reading, writing = os.pipe()
        self.addCleanup(os.close, reading)
        with os.fdopen(writing, "wb") as file:
            job = self.start(*words, stdout=file, stderr=file, **options)
        return job, reading

    def test_no_line_is_torn(self):
        job, reading = self.both("-np", 4, "python3", "-c", BOTH)
        lines, rest = [], b""
        while data := os.read(reading, 512):  # less than a line of each: the pipe is full most of the time
            *whole, rest = (rest + data).split(b"\n")
            lines += whole
        self.assertEnds(job.wait(), 0)
        torn = [line for line in lines if not re.fullmatch(rb"\[\d\] [OE]\d-\d{6}-[oe]{180}-END", line)]
        self.assertEqual(torn[:3], [])
        self.assertEqual((len(lines), rest), (32000, b""))

    def test_both_streams_come_in_the_order_in_which_they_were_written(self):
        steps = "".join(f"echo o{i}; while [ ! -e o{i} ]; do sleep 0.02; done; "
                        f"echo e{i} >&2; while [ ! -e e{i} ]; do sleep 0.02; done; " for i in range(3))
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                folder = f"{self.folder}/{ranks}"
                os.mkdir(folder)
                job, reading = self.both("-np", ranks, "--only-rank", 0, "--tag", "none", "sh", "-c", steps, cwd=folder)
                shown = []
                with os.fdopen(os.dup(reading)) as file:
                    for line in file:
                        shown.append(line.strip())
                        open(f"{folder}/{line.strip()}", "w").close()
                self.assertEnds(job.wait(), 0)
                self.assertEqual(shown, ["o0", "e0", "o1", "e1", "o2", "e2"])


class NotOurs(ReaderTest):
    """stdout belongs to another user, as after su or sudo: it cannot be opened anew."""

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            raise unittest.SkipTest("only root can become another user")
        for path in (self.folder, self.temporary, self.home):
            os.chown(path, NOBODY, NOBODY)
        os.chmod(self.folder, 0o755)

    def test_a_terminal_that_nobody_looks_at_ends_no_job(self):
        leader, follower = pty.openpty()
        self.addCleanup(os.close, leader)
        os.fchmod(follower, 0o620)

        def on_that_terminal():
            os.setsid()
            fcntl.ioctl(1, termios.TIOCSCTTY, 0)
            as_nobody()

        job = self.start("-np", 2, "--host-timeout", 2, "sh", "-c",
                         f"seq 20000; while [ ! -e {self.folder}/go ]; do sleep 0.1; done", stdout=follower,
                         preexec_fn=on_that_terminal)
        os.close(follower)
        job.wait_until(lambda: job.ended or len(self.processes("seq 20000; ")) >= 2, "the ranks run")
        begun = time.monotonic()  # three times the span after which agents give up a launcher that stands still
        job.wait_until(lambda: job.ended or time.monotonic() - begun > 6, "time passes")
        self.assertFalse(job.ended, job.result_so_far())
        open(self.folder + "/go", "w").close()
        shown = b""
        while True:
            try:
                shown += os.read(leader, 65536)
            except OSError as why:
                self.assertEqual(why.errno, errno.EIO)  # nobody has it open any more
                break
        done = self.assertEnds(job.wait(), 0)
        self.assertEqual(done.err, "")
        lines = re.sub(rb"\x1b\[[0-9;]*m|\r", b"", shown).splitlines()
        self.assertEqual(sorted(lines), sorted(b"[%d] %d" % (rank, i) for rank in (0, 1) for i in range(1, 20001)))

    def test_a_pipe_gets_every_byte_and_a_reader_that_leaves_is_noticed(self):
        job = self.start("-np", 2, "--tag", "none", WORKER, "lines", 20000, 100, preexec_fn=as_nobody)
        self.assertEqual(len(self.assertEnds(job.wait(), 0).out.splitlines()), 40000)
        job = self.unread("-np", 1, "seq", 100000, preexec_fn=as_nobody)
        os.read(job.process.stdout.fileno(), 2)
        job.process.stdout.close()
        self.assertEnds(job.wait(), 141)

    def test_stdin_is_read_all_the_same(self):
        data = os.urandom(300000)
        done = self.run_job("-np", 2, "--stdin", "all", WORKER, "checksum", feed=data, preexec_fn=as_nobody)
        self.assertEqual(self.assertEnds(done, 0).out.count(f"bytes {len(data)} crc32 {zlib.crc32(data)}"), 2)


class Closed(LocalTest):
    """`>&-`: not what one does who wants nothing of it, which is >/dev/null."""

    def closed(self, how, *words):
        return self.start("-c", 'exec "$0" "$@" ' + how, TRAINRUN, *map(str, words), program="/bin/sh").wait()

    def test_what_is_lost_is_told(self):
        done = self.assertEnds(self.closed(">&-", "-np", 2, WORKER, "lines", 1), 74)
        self.assertSays(done, "^trainrun: stdout was closed when trainrun was started", r"^trainrun: \d+ bytes of output")
        self.assertEnds(self.closed("2>&-", "-np", 2, WORKER, "err", "x", 0), 74)
        for words in (("--dry-run", "true"), ("--version",)):
            self.assertSays(self.assertEnds(self.closed(">&-", *words), 74), "stdout cannot be written to")

    def test_who_prints_nothing_loses_nothing(self):
        for how in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
            with self.subTest(how=how):
                self.assertEnds(self.closed(how, "-np", 2, "true"), 0)


if __name__ == "__main__":
    main()
