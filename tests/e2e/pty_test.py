#!/usr/bin/python3
"""--pty: what programs print by the C library comes when it is printed, and all of it comes."""
import os
import signal

import harness
from harness import BUILD, LocalTest, without_blanks

PRINTER = without_blanks(os.environ.get("TRAINRUN_PRINTER", BUILD + "/printer"))


class Pty(LocalTest):
    def test_a_line_comes_when_it_is_printed(self):
        job = self.start("-np", 2, "--pty", PRINTER, "wait")
        job.wait_for(r"^\[\d\] printed$", count=2)
        job.signal(signal.SIGTERM)
        self.assertEqual(job.wait().rc, 143)

    def test_without_it_lines_wait_in_the_program(self):
        job = self.start("-np", 1, "--pty=no", "sh", "-c", f"{PRINTER} wait & echo started; wait")
        job.wait_for("^started$")
        job.signal(signal.SIGTERM)
        self.assertNotIn("printed", job.wait().out)

    def test_only_stdout_is_a_terminal_and_nobody_is_controlled_by_it(self):
        done = self.assertEnds(self.run_job("-np", 2, "--tag", "none", "--pty", PRINTER, "terminal"), 0)
        self.assertEqual(done.out.count("terminals 010\n"), 2, done)
        self.assertEqual(done.out.count("controlling No such device or address\n"), 2, done)
        self.assertEqual(done.out.count("tab\tand\rreturn\n"), 2, done)

    def test_called_as_mpirun_ranks_have_it(self):
        for whose, seen in (("openmpi", "010"), ("hydra", "000")):  # a pipe, as of Hydra itself
            done = self.assertEnds(self.run_job("--compat-cli", whose, "-np", 2, PRINTER, "terminal"), 0)
            self.assertEqual(done.out.count(f"terminals {seen}\n"), 2, done)
        done = self.assertEnds(self.run_job("--compat-cli", "openmpi", "-np", 2, "--pty=no", PRINTER, "terminal"), 0)
        self.assertEqual(done.out.count("terminals 000\n"), 2, done)
        done = self.assertEnds(self.run_job("-np", 2, "--tag", "none", PRINTER, "terminal"), 0)
        self.assertEqual(done.out.count("terminals 000\n"), 2, done)

    def test_all_of_it_comes_in_order(self):
        done = self.assertEnds(self.run_job("-np", 1, "--pty", PRINTER, "order", 5000), 0)
        self.assertEqual(done.out, "".join(f"line {i}\n" for i in range(5000)))

    def test_a_hundred_megabytes(self):
        lines = 500_000
        done = self.assertEnds(self.run_job("-np", 2, "--tag", "none", "--pty", PRINTER, "big", lines), 0)
        self.assertEqual(len(done.out), 2 * lines * 100)
        numbers = sorted(int(line) for line in done.out.splitlines())
        self.assertEqual(numbers, [i // 2 for i in range(2 * lines)])

    def test_a_child_that_holds_the_terminal_is_not_waited_for(self):
        done = self.assertEnds(self.run_job("-np", 2, "--pty", PRINTER, "child"), 0)
        self.assertEqual(sorted(done.out.splitlines()), ["[0] parent ends", "[1] parent ends"])

    def test_stdin_goes_to_rank_0(self):
        done = self.assertEnds(self.run_job("-np", 2, "--pty", PRINTER, "copy", feed=b"one\ntwo\n"), 0)
        self.assertEqual(done.out, "[0] one\n[0] two\n")


if __name__ == "__main__":
    harness.main()
