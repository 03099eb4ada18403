"""What workers print, and what they read."""
import os
import pty
import re
import socket
import struct
import subprocess
import threading
import zlib

from harness import TRAINRUN, WORKER, LocalTest, main


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
        # Into a pipe every byte stays, and each state has the tag (behind it may be `tee` and a terminal); what a terminal shows is a matter of unit.output.
        self.assertIn(b"[0] \r[0] 10%\r[0] 50%\r[0] 100%\n[0] done\n", done.raw_out)

    def test_a_prompt_without_line_end_is_shown_before_the_line_is_complete(self):
        job = self.start("-np", 1, "sh", "-c", f"printf 'name? '; exec {WORKER} when {self.folder}/go exit 0")
        job.wait_for(r"name\? ")
        open(self.folder + "/go", "w").close()
        self.assertEnds(job.wait(), 0)

    def test_output_filename_writes_files_without_tags(self):
        logs = self.folder + "/logs"
        self.assertEnds(self.run_job("-np", 2, "--output-filename", logs, WORKER, "lines", 2), 0)
        for rank in (0, 1):
            with open(f"{logs}/latest/rank.{rank}/stdout") as file:
                self.assertEqual(file.read(), f"{rank}:0:\n{rank}:1:\n")
            self.assertTrue(os.path.exists(f"{logs}/latest/rank.{rank}/stderr"))

    def test_each_job_has_log_files_of_its_own(self):
        logs = self.folder + "/not/yet/there"

        def stdout_of(job, rank):
            with open(f"{logs}/{job}/rank.{rank}/stdout") as file:
                return file.read()

        def jobs():
            return sorted(set(os.listdir(logs)) - {"latest"})

        run = lambda *words: self.run_job("-np", 2, "--output-filename", logs, *words)
        self.assertEnds(run("--dry-run", "true"), 0)
        self.assertFalse(os.path.exists(self.folder + "/not"), "a dry run makes nothing")
        self.assertEnds(run("./no-such-program"), 127)
        self.assertEnds(run("-H", "nosuchhost.invalid:2", "true"), 69)
        self.assertFalse(os.path.exists(self.folder + "/not"), "no rank has started")
        running = self.start("-np", 2, "--output-filename", logs, "sh", "-c",
                             f"echo precious; exec {WORKER} when {self.folder}/go exit 0")
        running.wait_for("waiting", count=2)
        first = jobs()
        self.assertEqual(len(first), 1)
        self.assertRegex(first[0], r"^\d{8}-\d{6}-[0-9a-f]{8}$")
        self.assertEnds(run("echo", "new"), 0)
        self.assertEqual(len(jobs()), 2)
        self.assertEqual(stdout_of("latest", 1), "new\n")
        self.assertEqual(os.readlink(logs + "/latest"), (set(jobs()) - set(first)).pop())
        self.assertEnds(run("./no-such-program"), 127)
        open(self.folder + "/go", "w").close()
        self.assertEnds(running.wait(), 0)
        self.assertEqual(stdout_of(first[0], 1).splitlines()[0], "precious")
        self.assertEqual(len(jobs()), 2)

    def test_what_is_named_latest_and_is_no_link_stays_and_that_is_said(self):
        for directory in (False, True):
            with self.subTest(directory=directory):
                logs = f"{self.folder}/logs{directory}"
                os.makedirs(logs + "/latest/mine" if directory else logs)
                if not directory:
                    with open(logs + "/latest", "w") as file:
                        file.write("precious")
                done = self.assertEnds(self.run_job("-np", 1, "--output-filename", logs, "true"), 0)
                self.assertSays(done, r"^trainrun: --output-filename: '.*/latest' is no symbolic link and stays as it is")
                if directory:
                    self.assertEqual(os.listdir(logs + "/latest"), ["mine"])
                else:
                    with open(logs + "/latest") as file:
                        self.assertEqual(file.read(), "precious")

    def test_a_bar_that_goes_on_reaches_a_pipe_before_it_ends_and_every_byte_of_it(self):
        job = self.start("-np", 2, "sh", "-c", f"""printf '\\r10%%\\r20%%\\r30%%'
                         while [ ! -e {self.folder}/go ]; do sleep 0.1; done; printf '\\r100%%\\n'""")
        job.wait_for(r"^\[0\] \r\[0\] 10%\r\[0\] 20%$")
        job.wait_for(r"^\[1\] \r\[1\] 30%$")
        open(self.folder + "/go", "w").close()
        done = self.assertEnds(job.wait(), 0)
        for rank in (0, 1):
            mine = re.findall(rf"^\[{rank}\] (.*)\n".encode(), done.raw_out, re.MULTILINE)
            self.assertEqual(b"".join(mine).replace(b"[%d] " % rank, b""), b"\r10%\r20%\r30%\r100%")

    def test_text_that_goes_on_reaches_a_pipe_before_its_line_ends(self):
        job = self.start("-np", 2, "sh", "-c", f"""[ $RANK = 0 ] || exec {WORKER} when {self.folder}/go exit 0
                         printf 'iterating.'; while [ ! -e {self.folder}/seen ]; do sleep 0.1; done; echo ' done'
                         exec {WORKER} when {self.folder}/go exit 0""")
        job.wait_until(lambda: job.out.endswith("[0] iterating."), "the beginning of a line is shown")
        open(self.folder + "/seen", "w").close()
        job.wait_for(r"^\[0\] iterating\. done$")
        open(self.folder + "/go", "w").close()
        self.assertEnds(job.wait(), 0)

    def test_where_both_streams_are_one_file_each_line_begins_one(self):
        rank0 = 'if [ "$RANK" = 0 ]; then printf working; while [ ! -e end ]; do sleep 0.1; done; echo " done"; exit; fi; '
        job = self.start("-np", 2, "sh", "-c", rank0 + "while [ ! -e begun ]; do sleep 0.1; done; echo warning >&2",
                         stderr=subprocess.STDOUT)
        for after, touched in ((r"\[0\] working", "begun"), (r"\[1\] warning\n", "end")):
            job.wait_for(after)
            with open(f"{self.folder}/{touched}", "w", encoding="ascii"):
                pass
        self.assertEqual(self.assertEnds(job.wait(), 0).out, "[0] working\n[1] warning\n[0]  done\n")
        done = self.run_job("-np", 1, "sh", "-c", "printf abc; exit 3", stderr=subprocess.STDOUT)
        self.assertRegex(self.assertEnds(done, 3).out, r"\Aabc\ntrainrun: rank 0 on \S+ exited with code 3")

    def test_only_rank_shows_that_rank(self):
        done = self.assertEnds(self.run_job("-np", 3, "--only-rank", 1, WORKER, "lines", 1), 0)
        self.assertIn("1:0:", done.out)
        self.assertNotIn("0:0:", done.out)
        self.assertNotIn("2:0:", done.out)

    def test_one_rank_that_is_shown_without_tags_passes_byte_for_byte(self):
        program = r"import sys; sys.stdout.buffer.write(b'\0\xff\r\n' + b'x' * 3000000 + b'\r\ny' * 9)"
        done = self.assertEnds(self.run_job("-np", 2, "--only-rank", 1, "--tag", "none", "/usr/bin/python3", "-c", program), 0)
        self.assertEqual(done.raw_out, b"\0\xff\r\n" + b"x" * 3000000 + b"\r\ny" * 9)

    def test_a_long_line_is_split_only_where_another_rank_writes(self):
        program = "head -c 3000000 /dev/zero | tr '\\0' x; echo"
        done = self.assertEnds(self.run_job("-np", 2, "--only-rank", 0, "sh", "-c", program), 0)
        self.assertEqual((done.out, done.err), ("[0] " + "x" * 3000000 + "\n", ""))

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

    def test_a_reader_that_pauses_gets_whole_lines(self):
        job = self.start("-np", 4, "seq", "-f", "L%09.0fE", 1, 300000)
        job.stop_reading()
        subprocess.run(["sleep", "11"], check=True)  # longer than a line whose rank has paused in it is held
        os.set_blocking(job.process.stdout.fileno(), True)
        with open(job.process.stdout.fileno(), "rb", closefd=False) as pipe:
            torn = [line for line in pipe if not re.fullmatch(rb"\[[0-3]\] L[0-9]{9}E\n", line)]
        self.assertEqual(torn, [])
        self.assertEnds(job.wait(), 0)

    def test_what_a_rank_left_prints_without_end_for_a_slow_reader_and_the_job_ends(self):
        job = self.start("-np", 1, "--grace", 2, "sh", "-c", "yes & exit 0")
        job.stop_reading()
        job.read_slowly()  # slower than yes, so its pipe is never empty
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


def an_ssh_server_that_disconnects(listener, words):
    """Before any key was exchanged, with these words: nobody knows who says them."""
    payload = struct.pack(">BII", 1, 2, len(words)) + words + struct.pack(">I", 0)
    padding = 8 - (len(payload) + 5) % 8
    padding += 8 if padding < 4 else 0
    packet = struct.pack(">IB", len(payload) + padding + 1, padding) + payload + bytes(padding)
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        with client:
            client.settimeout(20)
            try:
                client.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
                client.recv(4096)
                client.sendall(packet)
                while client.recv(65536):
                    pass
            except OSError:
                pass


class Strangers(LocalTest):
    """What an ssh server says that nobody has authenticated."""

    def setUp(self):
        super().setUp()
        listener = socket.create_server(("127.0.0.1", 0))
        words = b"\x1b]0;OWNED\x07\x1b[2J\x1b[31mbye\ntrainrun: all is well\x1b[8m"
        thread = threading.Thread(target=an_ssh_server_that_disconnects, args=(listener, words))
        thread.start()
        self.addCleanup(thread.join, 30)
        self.addCleanup(listener.close)
        self.addCleanup(listener.shutdown, socket.SHUT_RDWR)
        with open(self.folder + "/ssh_config", "w") as file:
            file.write("LogLevel DEBUG3\n")
        self.words = ("-H", "127.0.0.1:1", "-p", listener.getsockname()[1], "--transport", "ssh", "--ssh-config",
                      self.folder + "/ssh_config")

    def test_its_words_command_no_terminal_and_make_no_line_of_ours(self):
        heard = 0  # libssh may tell the end of the connection instead; its log has the words
        for how in (("--check-hosts",), (), ("-v",), ("-vvv",), ("--min-np", 1, "--max-np", 1, "--elastic-timeout", 1)):
            with self.subTest(how=how):
                done = self.run_job(*self.words, *how, "true", timeout=120)
                self.assertEqual(done.rc, 69, str(done))
                said = done.raw_out + done.raw_err
                heard += b"bye" in said
                self.assertEqual([c for c in said if c < 32 and c != 10], [], str(done))
                self.assertNotIn(b"\ntrainrun: all is well", said)
        self.assertGreater(heard, 0)

    def test_the_log_of_libssh_is_shown_with_vvv_alone_whatever_ssh_config_says(self):
        for how, logs in (("-q", False), ("-vv", False), ("-vvv", True)):
            with self.subTest(how=how):
                done = self.run_job(*self.words, how, "--check-hosts", "true", timeout=120)
                strange = [line for line in done.err.splitlines() if not line.startswith("trainrun: ")]
                self.assertEqual(strange, [], str(done))
                self.assertEqual("trainrun: libssh: " in done.err, logs, str(done))


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

    def test_a_file_and_a_socket_are_read_whole(self):
        path = self.folder + "/data"
        with open(path, "wb") as file:
            file.write(self.DATA)
        with open(path, "rb") as file:
            done = self.run_job("-np", 2, "--stdin", "all", WORKER, "checksum", stdin=file)
        self.assertEqual(self.assertEnds(done, 0).out.count(self.expected()), 2)
        ours, theirs = socket.socketpair()
        with theirs:
            job = self.start("-np", 2, "--stdin", "all", WORKER, "checksum", stdin=theirs)
        with ours:
            ours.sendall(self.DATA)
        self.assertEqual(self.assertEnds(job.wait(), 0).out.count(self.expected()), 2)

    def test_jobs_that_share_one_stdin_take_turns_and_none_stands_still(self):
        reading, writing = os.pipe()
        # Between the news that there is something and the read any of the others can take it.
        jobs = [self.start("-v", "-np", 1, "--stdin", "all", "sh", "-c", "while read -r line; do echo got line; done",
                           stdin=reading, env={"TRAINRUN_FAULT": "launcher.stdin=delay:200"}) for _ in range(4)]
        os.close(reading)
        names = [job.wait_for("^trainrun: job [0-9a-f]+", stream="err")[0].split()[-1] for job in jobs]
        jobs[0].wait_until(lambda: all(map(self.answers, names)), "all can be asked")
        for turn in (1, 2, 3):
            os.write(writing, b"line\n")
            jobs[0].wait_until(lambda: sum(map(self.lines_of, jobs)) == turn or any(job.ended for job in jobs),
                               "one of them gets the line")
            self.assertEqual([name for name in names if not self.answers(name)], [], "one stands still")
        os.close(writing)
        for job in jobs:
            self.assertEnds(job.wait(), 0)

    def answers(self, name):
        return subprocess.run([TRAINRUN, "ctl", "--job", name, "world"], env=self.environment(), timeout=60,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0

    @staticmethod
    def lines_of(job):
        job._pump(0)
        return job.out.count("got line")

    def test_a_rank_that_reads_no_stdin_does_not_stop_the_job(self):
        self.assertEnds(self.run_job("-np", 2, WORKER, "exit", 0, feed=self.DATA), 0)

    def test_the_end_of_stdin_does_not_stop_the_job(self):
        job = self.start("-np", 2, WORKER, "when", self.folder + "/go", "exit", 0, feed=b"")
        job.wait_for("waiting", count=2)
        open(self.folder + "/go", "w").close()
        self.assertEnds(job.wait(), 0)

    def test_closed_stdin_and_stderr_are_no_reason_to_fail(self):
        for closed in ("<&-", "<&- 2>&-"):
            with self.subTest(closed=closed):
                job = self.start("-c", 'exec "$0" "$@" ' + closed, *self.words("lines", 1), program="/bin/sh")
                done = self.assertEnds(job.wait(), 0)
                self.assertEqual(sorted(done.out.splitlines()), ["[0] 0:0:", "[1] 1:0:"])

    @staticmethod
    def words(*verb):
        return [TRAINRUN, "-np", 2, WORKER, *verb]


if __name__ == "__main__":
    main()
