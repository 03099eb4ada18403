"""--preload: nothing depends on the life of the zygote, and nothing is left of it."""
import os
import signal

import harness
from preload_test import PYTHON, PreloadTest


class Deaths(PreloadTest):
    WAITING = """
import os, select, sys
print("up", os.environ["TRAINRUN_GENERATION"], os.environ["RANK"], "decimal" in sys.modules, flush=True)
while not os.path.exists(sys.argv[1]): select.select([], [], [], 0.02)
sys.exit(int(open(sys.argv[1]).read() or 0))
"""

    def begin(self, *options, np=2):
        script = self.write("script.py", self.WAITING)
        job = self.start("-np", np, "--oversubscribe", "--preload", "decimal", *options, PYTHON, script, self.folder + "/end")
        job.wait_for("up 1", count=np)
        return job

    def finish(self, job, rc=0):
        self.write("end.new", "")
        os.rename(self.folder + "/end.new", self.folder + "/end")
        return self.assertEnds(job.wait(), rc)

    def the_zygote(self, job):
        job.wait_until(lambda: len(self.zygotes()) == 1, "there is one zygote")
        return self.zygotes()[0]

    def test_kill_9_ends_no_rank_and_the_next_is_there_for_the_next_generation(self):
        job = self.begin("--on-failure", "restart-world")
        first = self.the_zygote(job)
        harness.kill(first)
        job.wait_for("--preload: the process that ranks are forked from ended: was killed by SIGKILL", stream="err")
        job.wait_until(lambda: self.zygotes() not in ([], [first]), "there is a new zygote")
        victim = self.ranks()[0]
        harness.kill(victim)
        job.wait_for("up 2 . True", count=2)
        self.finish(job)

    def test_a_stopped_zygote_costs_a_plain_start(self):
        job = self.begin("--on-failure", "restart-world")
        os.kill(self.the_zygote(job), signal.SIGSTOP)
        victim = self.ranks()[0]
        harness.kill(victim)
        job.wait_for("up 2", count=2)
        self.assertIn("--preload: the process that ranks are forked from ended: gave no answer", job.err)
        self.finish(job)

    def test_it_outlives_a_restart_and_what_ends_the_ranks(self):
        job = self.begin("--on-failure", "restart-world", "--grace", "0")
        first = self.the_zygote(job)
        victim = self.ranks()[0]
        harness.kill(victim)
        job.wait_for("up 2 . True", count=2)
        self.assertEqual(self.zygotes(), [first])
        self.finish(job)

    def test_nothing_is_left_of_it(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number):
                job = self.begin()
                self.the_zygote(job)
                job.signal(number)
                job.wait()
                self.assertQuietOn(job.result_so_far(), "left behind")
                self.assertAllGone()

    def test_nothing_is_left_after_kill_9_of_launcher_and_agent(self):
        for of_agent in (False, True):
            with self.subTest(of_agent=of_agent):
                job = self.begin()
                with open(f"/proc/{self.the_zygote(job)}/stat", encoding="ascii") as file:
                    agent = int(file.read().rsplit(") ", 1)[1].split()[1])
                harness.kill(agent if of_agent else job.pid)
                job.wait_until(lambda job=job: job.ended, "trainrun ends")
                self.assertAllGone()

    def test_a_short_job_ends_while_it_imports(self):
        self.module("slow", "import time\ntime.sleep(600)\n")
        script = self.write("script.py", "")
        job = self.start("-np", 1, "--preload", "slow", PYTHON, script, env={"PYTHONPATH": self.folder + "/modules"})
        job.wait_until(lambda: self.processes("script.py"), "it runs")
        job.signal(signal.SIGTERM)
        job.wait()
        self.assertAllGone()


if __name__ == "__main__":
    harness.main()
