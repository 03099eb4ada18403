"""A file system that takes nothing, frozen for real, under what a job writes."""
import os
import re

from harness import main
from stalling import WithDisk, WithSmallDisk

LINE = "x" * 99 + "\n"


class StalledDisk(WithDisk):
    def step(self, name):
        open(f"{self.folder}/{name}", "w").close()

    def program(self, size):
        """Prints a start, after `go` `size` bytes of lines, after `end` a last line."""
        wait = "while [ ! -e {0}/{1} ]; do sleep 0.1; done; "
        return ("sh", "-c", "echo begun; " + wait.format(self.folder, "go") + f"yes {LINE.strip()} | head -c {size}; "
                + wait.format(self.folder, "end") + "echo done")

    def test_it_blames_no_rank_is_said_once_and_nothing_is_lost(self):
        size = 6_000_000  # more than may wait: ranks are held back, and that is no hang
        job = self.start("-np", 2, "--host-timeout", 2, "--hang-timeout", 4, "--output-filename", self.disk + "/logs",
                         *self.program(size))
        job.wait_for("begun", count=2)
        self.freeze()
        self.step("go")
        job.wait_for("takes? nothing|taken nothing", stream="err")
        self.step("end")
        job.wait_until(lambda: job.ended or b"done" in job.buffers["out"] or len(job.buffers["out"]) > 4 << 20,
                       "what is printed meanwhile is shown")
        self.assertFalse(job.ended, job.result_so_far())
        self.thaw()
        done = self.assertEnds(job.wait(), 0)
        self.assertEqual(len(done.err.splitlines()), 1, done.err)
        for rank in (0, 1):
            with open(f"{self.disk}/logs/latest/rank.{rank}/stdout") as file:
                self.assertEqual(file.read(), "begun\n" + LINE * (size // 100) + "done\n")

    def test_stdout_may_be_such_a_file(self):
        with open(self.disk + "/out", "wb") as out:
            job = self.start("-np", 2, "--host-timeout", 2, *self.program(200000), stdout=out)
            job.wait_until(lambda: os.path.getsize(self.disk + "/out") > 0, "the ranks run")
            self.freeze()
            self.step("go")
            job.wait_for("stdout has taken nothing", stream="err")
            self.thaw()
            self.step("end")
            self.assertEnds(job.wait(), 0)
        self.assertEqual(os.path.getsize(self.disk + "/out"), 2 * (len("[0] begun\n[0] done\n") + 2000 * len("[0] " + LINE)))

    def test_output_on_another_disk_goes_on(self):
        with open(self.folder + "/out", "wb") as out:
            job = self.start("-np", 1, "--output-filename", self.disk + "/logs", *self.program(1000), stdout=out)
            job.wait_until(lambda: os.path.getsize(self.folder + "/out") > 0, "the rank runs")
            self.freeze()
            self.step("go")
            job.wait_for("rank.0/stdout has taken nothing", stream="err")
            self.step("end")
            job.wait_until(lambda: os.path.getsize(self.folder + "/out") == len("begun\ndone\n") + 1000,
                           "the other disk gets all")
            self.thaw()
            self.assertEnds(job.wait(), 0)
        with open(self.disk + "/logs/latest/rank.0/stdout") as file:
            self.assertEqual(file.read(), "begun\n" + 10 * LINE + "done\n")

    def test_at_the_end_grace_is_waited_then_what_is_lost_is_told(self):
        job = self.start("-np", 2, "--grace", 1, "--output-filename", self.disk + "/logs", *self.program(1000))
        job.wait_for("begun", count=2)
        self.freeze()
        self.step("go")
        self.step("end")
        job.wait_for("^trainrun: .* of output could not be written: .*/rank.*/stdout took nothing more for 1.0 s", stream="err")
        self.thaw()  # a process that hangs in the kernel cannot end
        self.assertEnds(job.wait(), 74)


class FullDisk(WithSmallDisk):
    def test_which_file_is_full_is_said_and_the_file_says_what_is_missing(self):
        ballast = self.disk + "/ballast"
        with open(ballast, "wb") as file:
            file.write(b"x" * 100000)
        job = self.start("-np", 1, "--output-filename", self.disk + "/logs", "sh", "-c",
                         f"yes {LINE.strip()} | head -c 300000; "
                         f"while [ -e {ballast} ]; do sleep 0.1; done; echo room again")
        path = r"\S*/logs/\S+/rank\.0/stdout"
        job.wait_for(f"^trainrun: {path}: No space left on device; output is dropped", stream="err")
        job.wait_until(lambda: job.ended or len(job.buffers["out"]) >= 300000, "all is printed")
        os.unlink(ballast)
        done = self.assertEnds(job.wait(), 74)
        self.assertSays(done, r"^trainrun: \d+ bytes of output could not be written$", rf"^  lost        \d+ bytes of {path}$")
        with open(self.disk + "/logs/latest/rank.0/stdout") as file:
            text = file.read()
        self.assertTrue(text.endswith("\nroom again\n"), text[-200:])
        # The rest of a page may take some of it in between, so there may be more holes than one.
        missing = re.findall(r"^trainrun: (\d+) bytes? (?:is|are) missing here: No space left on device$", text, re.MULTILINE)
        self.assertGreater(len(missing), 0, text[-400:])
        self.assertIn(f"{sum(map(int, missing))} bytes of", done.err)


if __name__ == "__main__":
    main()
