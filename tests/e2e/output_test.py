"""What workers print, and what they read."""
import os
import pty
import re
import zlib

from harness import WORKER, LocalTest, main


def tagged(rank, text):
    return rf"^\[\s*{rank}\] +{text}$"


class Output(LocalTest):
    def test_lines_carry_the_rank_when_there_is_more_than_one(self):
        done = self.assertEnds(self.run_job("-np", 2, WORKER, "lines", 2), 0)
        self.assertEqual(sorted(done.out.splitlines()), ["[0] 0:0:", "[0] 0:1:", "[1] 1:0:", "[1] 1:1:"])
        self.assertEqual(self.assertEnds(self.run_job("-np", 1, WORKER, "lines", 2), 0).out, "0:0:\n0:1:\n")

    def test_tags_are_aligned_with_two_digit_ranks(self):
        done = self.assertEnds(self.run_job("-np", 11, WORKER, "lines", 1, 5), 0)
        self.assertEqual(len({line.index("xxxxx") - len(str(int(line.split(":")[0].split()[-1])))
                              for line in done.out.splitlines()}), 1, done.out)

    def test_tag_none_and_tag_host(self):
        done = self.assertEnds(self.run_job("-np", 2, "--tag", "none", WORKER, "lines", 1), 0)
        self.assertEqual(sorted(done.out.splitlines()), ["0:0:", "1:0:"])
        done = self.assertEnds(self.run_job("-np", 2, "--tag", "host", WORKER, "lines", 1), 0)
        for line in done.out.splitlines():
            self.assertRegex(line, r"^\[[01] \S+\] [01]:0:$")

    def test_timestamp_begins_each_line_with_a_time(self):
        done = self.assertEnds(self.run_job("-np", 2, "--timestamp", WORKER, "lines", 1), 0)
        for line in done.out.splitlines():
            self.assertRegex(line, r"\d\d:\d\d:\d\d")
            self.assertRegex(line, r"[01]:0:$")

    def test_stdout_and_stderr_stay_apart_and_ours_goes_to_stderr(self):
        done = self.assertEnds(self.run_job("-np", 2, WORKER, "err", "to stderr", 0), 0)
        self.assertEqual(done.out, "")
        self.assertEqual(sorted(done.err.splitlines()), ["[0] to stderr", "[1] to stderr"])

    def test_many_ranks_writing_at_once_tear_no_line_and_lose_none(self):
        for tag, begin in (("rank", r"\[(\d)\] "), ("none", "")):
            with self.subTest(tag=tag):
                done = self.assertEnds(self.run_job("-np", 4, "--tag", tag, WORKER, "lines", 100000, 100), 0)
                seen = {str(rank): 0 for rank in range(4)}
                expression = re.compile(begin + r"(\d):(\d+):x{100}")
                for line in done.out.splitlines():
                    match = expression.fullmatch(line)
                    self.assertTrue(match, f"a torn line: {line}")
                    rank, number = match.groups()[-2:]
                    self.assertEqual(match.group(1), rank)
                    self.assertEqual(int(number), seen[rank], f"rank {rank}: a line is lost or out of order")
                    seen[rank] += 1
                self.assertEqual(set(seen.values()), {100000})

    def test_a_line_of_a_megabyte_arrives_whole(self):
        done = self.assertEnds(self.run_job("-np", 2, "--tag", "none", WORKER, "lines", 2, 1 << 20), 0)
        self.assertEqual(done.out.count("x"), 4 << 20)

    def test_any_byte_passes(self):
        every = bytes(range(256))
        done = self.assertEnds(self.run_job("-np", 1, WORKER, "raw", every.hex()), 0)
        self.assertEqual(done.raw_out.rstrip(b"\n"), every)

    def test_the_last_line_needs_no_end(self):
        done = self.assertEnds(self.run_job("-np", 2, WORKER, "on", 0, "raw", b"no end".hex(), "--", "lines", 1), 0)
        self.assertRegex(done.out, re.compile(tagged(0, "no end"), re.MULTILINE))
        self.assertRegex(done.out, re.compile(tagged(1, "1:0:"), re.MULTILINE))

    def test_a_progress_bar_of_carriage_returns_stays_readable(self):
        words = [f"\r{percent}%".encode().hex() for percent in (10, 50, 100)] + [b"\ndone\n".hex()]
        done = self.assertEnds(self.run_job("-np", 2, WORKER, "on", 0, "raw", *words, "--", "exit", 0), 0)
        # Into a pipe every byte stays; what a terminal shows is a matter of unit.output.
        self.assertIn(b"[0] \r10%\r50%\r100%\n[0] done\n", done.raw_out)

    def test_a_prompt_without_line_end_is_shown_before_the_line_is_complete(self):
        job = self.start("-np", 1, "sh", "-c", f"printf 'name? '; exec {WORKER} when {self.folder}/go exit 0")
        job.wait_for(r"name\? ")
        open(self.folder + "/go", "w").close()
        self.assertEnds(job.wait(), 0)

    def test_output_filename_writes_files_without_tags(self):
        logs = self.folder + "/logs"
        self.assertEnds(self.run_job("-np", 2, "--output-filename", logs, WORKER, "lines", 2), 0)
        for rank in (0, 1):
            with open(f"{logs}/rank.{rank}/stdout") as file:
                self.assertEqual(file.read(), f"{rank}:0:\n{rank}:1:\n")
            self.assertTrue(os.path.exists(f"{logs}/rank.{rank}/stderr"))

    def test_a_start_that_fails_leaves_the_files_of_the_run_before(self):
        def stdout_of(rank):
            with open(f"{self.folder}/logs/rank.{rank}/stdout") as file:
                return file.read()
        run = lambda *words: self.run_job("-np", 2, "--output-filename", self.folder + "/logs", *words)
        self.assertEnds(run("echo", "precious"), 0)
        self.assertEnds(run("./no-such-program"), 127)
        self.assertEqual(stdout_of(1), "precious\n")
        self.assertEnds(run("echo", "new"), 0)
        self.assertEqual(stdout_of(1), "new\n")

    def test_only_rank_shows_that_rank(self):
        done = self.assertEnds(self.run_job("-np", 3, "--only-rank", 1, WORKER, "lines", 1), 0)
        self.assertIn("1:0:", done.out)
        self.assertNotIn("0:0:", done.out)
        self.assertNotIn("2:0:", done.out)

    def test_a_stalled_reader_loses_nothing(self):
        job = self.start("-np", 4, "--tag", "none", WORKER, "lines", 200000, 100)
        job.stop_reading()
        job.wait_until(lambda: len(self.workers()) >= 4 or job.ended, "workers have started")
        os.set_blocking(job.process.stdout.fileno(), True)
        total = 0
        with open(job.process.stdout.fileno(), "rb", closefd=False) as pipe:
            for line in pipe:
                total += len(line) > 100
        self.assertEqual(total, 800000)
        self.assertEnds(job.wait(), 0)

    def test_escape_sequences_are_neutral_on_a_terminal_and_whole_in_a_pipe(self):
        evil = b"\x1b]0;owned\x07\x1b[2Jtext\n"
        self.assertIn(evil, self.assertEnds(self.run_job("-np", 1, WORKER, "raw", evil.hex()), 0).raw_out)
        leader, follower = pty.openpty()
        try:
            job = self.start("-np", 2, WORKER, "raw", evil.hex(), stdout=follower)
            os.close(follower)
            shown = b""
            while b"text" not in shown or shown.count(b"text") < 2:
                try:
                    shown += os.read(leader, 65536)
                except OSError:
                    break
            job.wait()
        finally:
            os.close(leader)
        self.assertEqual(shown.count(b"text"), 2, shown)
        self.assertNotIn(b"\x1b]0;", shown)
        self.assertNotIn(b"\x1b[2J", shown)


class Input(LocalTest):
    DATA = os.urandom(1 << 20) * 3

    def expected(self):
        return f"bytes {len(self.DATA)} crc32 {zlib.crc32(self.DATA)}"

    def test_three_megabytes_of_stdin_reach_rank_0_whole_and_no_other(self):
        done = self.assertEnds(self.run_job("-np", 3, "--tag", "rank", WORKER, "checksum", feed=self.DATA), 0)
        self.assertEqual(sorted(done.out.splitlines()),
                         ["[0] " + self.expected(), "[1] bytes 0 crc32 0", "[2] bytes 0 crc32 0"])

    def test_stdin_to_another_rank_to_all_and_to_none(self):
        for where, ranks in (("1", {1}), ("all", {0, 1, 2}), ("none", set())):
            with self.subTest(stdin=where):
                done = self.run_job("-np", 3, "--stdin", where, WORKER, "checksum", feed=self.DATA)
                self.assertEnds(done, 0)
                for rank in range(3):
                    self.assertIn(f"[{rank}] " + (self.expected() if rank in ranks else "bytes 0 crc32 0"), done.out)

    def test_a_rank_that_reads_no_stdin_does_not_stop_the_job(self):
        self.assertEnds(self.run_job("-np", 2, WORKER, "exit", 0, feed=self.DATA), 0)

    def test_the_end_of_stdin_does_not_stop_the_job(self):
        job = self.start("-np", 2, WORKER, "when", self.folder + "/go", "exit", 0, feed=b"")
        job.wait_for("waiting", count=2)
        open(self.folder + "/go", "w").close()
        self.assertEnds(job.wait(), 0)

    def test_closed_stdin_stdout_and_stderr_are_no_reason_to_fail(self):
        for closed in ("<&-", "<&- 2>&-", "<&- >&- 2>&-"):
            with self.subTest(closed=closed):
                job = self.start("-c", 'exec "$0" "$@" ' + closed, *self.words("lines", 1), program="/bin/sh")
                done = self.assertEnds(job.wait(), 0)
                self.assertEqual(sorted(done.out.splitlines()), ["[0] 0:0:", "[1] 1:0:"] if ">&- " not in closed else [])

    @staticmethod
    def words(*verb):
        from harness import TRAINRUN
        return [TRAINRUN, "-np", 2, WORKER, *verb]


if __name__ == "__main__":
    main()
