#!/usr/bin/python3
"""Nothing holds up the launcher's loop: no disk that stalls, no reader that takes nothing, no long list of hosts. What
counts is what the thread computed and what it waited for, not that others had the processor."""
import fcntl
import os
import re
import struct
import sys
import termios

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import LocalTest, main
from stalling import WithDisk, WithSmallDisk

MOST_MS = 500
TOLD = r"^trainrun: the longest of (\d+) turns of the loop: ([\d.]+) ms of CPU, ([\d.]+) ms in \d+ blocking calls?$"


def assert_no_turn_was_long(test, result):
    turns, computed, waited = re.search(TOLD, result.err, re.MULTILINE).groups()
    test.assertGreater(int(turns), 10, result)
    test.assertLess(float(computed) + float(waited), MOST_MS, result)


class Disk(WithDisk):
    def test_a_disk_that_stalls(self):
        """Under each file that a job writes. What is printed meanwhile is little enough to wait."""
        with open(self.disk + "/err", "wb") as err:
            job = self.start("-np", 2, "-vvv", "--host-timeout", 60, "--output-filename", self.disk + "/logs", "--events",
                             self.disk + "/events", "sh", "-c", f"echo begun; while [ ! -e {self.folder}/go ]; do sleep 0.1; done; "
                             "yes | head -c 600000; yes | head -c 1000 >&2; echo printed", stderr=err)
            job.wait_for("begun", count=2)
            self.freeze()
            open(self.folder + "/go", "w").close()
            job.wait_until(lambda: job.ended or job.buffers["out"].count(b"printed") == 2, "what is printed meanwhile is shown")
            self.assertFalse(job.ended, job.result_so_far())
            self.thaw()
            done = self.assertEnds(job.wait(), 0)
        with open(self.disk + "/err") as err:
            done.err = err.read()
        assert_no_turn_was_long(self, done)


class FullDisk(WithSmallDisk):
    def test_a_disk_that_is_full(self):
        """Of what a job writes there most is lost, which is said, and nothing waits for it."""
        job = self.start("-np", 2, "-vvv", "--output-filename", self.disk + "/logs", "--events", self.disk + "/events", "sh", "-c",
                         "yes | head -c 3000000; yes | head -c 1000000 >&2")
        done = self.assertEnds(job.wait(), 74)
        self.assertEqual(done.out.count("y"), 3_000_000)
        self.assertSays(done, r"^trainrun: \S*/logs/\S+: No space left on device; output is dropped")
        assert_no_turn_was_long(self, done)


class Reader(LocalTest):
    def test_a_reader_that_takes_nothing(self):
        over = self.folder + "/over"
        job = self.start("-np", 2, "-vvv", "sh", "-c", f"yes | head -c 8000000; : >{over}")
        job.stop_reading()
        pipe = job.process.stdout.fileno()
        full = fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ) - 4096  # the last page may have room that no write fits into
        job.wait_until(lambda: job.ended or self.waiting_in(pipe) >= full, "stdout is full")
        self.assertFalse(os.path.exists(over))
        job.read_slowly()
        assert_no_turn_was_long(self, self.assertEnds(job.wait(), 0))

    def waiting_in(self, pipe):
        return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))[0]


class Discovery(LocalTest):
    def check(self, line):
        """A script that prints as much as one may, again and again while the job runs."""
        with open(self.folder + "/hosts", "w") as file:
            file.write("localhost:2\n")
            for number in range(9_900_000 // (len(line) + 1)):
                file.write(line.replace("NUMBER", f"{number:06}") + "\n")
        script = self.folder + "/script"
        with open(script, "w") as file:
            file.write(f"#!/bin/sh\ncat {self.folder}/hosts\necho asked >>{self.folder}/asked\n")
        os.chmod(script, 0o755)
        job = self.start("--min-np", 2, "--max-np", 2, "-vvv", "--host-discovery-script", script, "--discovery-interval", "100ms", "sh",
                         "-c", f"while [ ! -e {self.folder}/asked ] || [ $(wc -l <{self.folder}/asked) -lt 4 ]; do sleep 0.1; done")
        assert_no_turn_was_long(self, self.assertEnds(job.wait(), 0))

    def test_ten_megabytes_of_comments(self):
        self.check("# none of these hosts, since they have no accelerator that this program could use, nor any other, ")

    def test_ten_megabytes_that_name_5000_hosts(self):
        """As many as a list may have hold the loop up for longer: decision 0054."""
        self.check("host-NUMBER.a-name-as-long-as-those-of-clouds-often-are.internal.example.org:8 # " + "a long story " * 145)


if __name__ == "__main__":
    main()
