"""`trainrun ctl`: what it shows of a running job, and what it changes."""
import json
import os
import signal

from elastic_test import RESTARTS, TWO_HOSTS, ElasticTest
from harness import WORKER, main


class Control(ElasticTest):
    def test_world(self):
        job = self.start("-np", 2, "--min-np", 1, *RESTARTS, *self.train())
        first = self.await_generation(job, 1)
        self.assertSays(self.fake_result(self.ctl("world")),
                        r"^job [0-9a-f]{16}: generation 1, running, 2 ranks \(wanted: 1 to 2\), 0 of 10 restarts used",
                        rf"^ *0 +\S+ +0 +{first[0]['pid']} +running", rf"^ *1 +\S+ +1 +{first[1]['pid']} +running",
                        r"^\S+ +ready +\d+ +2")
        told = json.loads(self.ctl("--json", "world"))
        self.assertEqual([rank["pid"] for rank in told["ranks"]], [each["pid"] for each in first])
        self.assertIn(told["job_id"], self.ctl("list"))
        self.finish()
        self.assertEnds(job.wait(), 0)
        self.ctl("world", rc=69)

    def test_a_job_that_is_not_elastic_answers_and_says_why_it_does_not_change(self):
        job = self.start("-np", 2, WORKER, "signals", 0)
        job.wait_for("ready", count=2)
        job.wait_until(self.own_jobs, "the job can be asked")
        pids = [pid for pid, _ in sorted(self.workers())]
        told = json.loads(self.ctl("--json", "world"))
        self.assertEqual(sorted(rank["pid"] for rank in told["ranks"]), pids)
        self.assertFalse(told["elastic"])
        self.assertSays(self.fake_result(self.ctl("world")), r"^job [0-9a-f]{16}: running, 2 ranks$",
                        r"^ *0 +\S+ +0 +\d+ +running", r"^\S+ +ready +\d+ +2")
        for words in (("restart",), ("restart", 0), ("stop", 0), ("add", "beta:1"), ("remove", "localhost")):
            self.assertIn("the job is not elastic", self.ctl(*words, rc=2))
        self.assertIn("ending the job", self.ctl("end"))
        job.wait_for("got TERM", count=2)
        self.assertEqual(self.assertEnds(job.wait(), 143).died_by, 0)  # no signal came

    def test_end_gives_a_reader_that_takes_nothing_no_more_than_a_signal_does(self):
        job = self.start("-np", 2, "--grace", 1, "yes")
        job.stop_reading()
        job.wait_until(lambda: self.own_jobs() and len(self.processes("yes")) >= 2, "the job runs, and can be asked")
        self.ctl("end")
        os.set_blocking(job.process.stdout.fileno(), True)
        self.assertSays(self.assertEnds(job.wait(timeout=30), 143), "nobody read it in time$", "^trainrun: ended by ctl end")

    @staticmethod
    def fake_result(text):
        class Said:
            err = text

            def __str__(self):
                return text
        return Said()

    def test_restart(self):
        job = self.start("-np", 2, *RESTARTS, *self.train())
        self.await_generation(job, 1)
        self.assertIn("restarting all ranks", self.ctl("restart"))
        self.await_generation(job, 2)
        self.assertIn("restarting all ranks: this program", self.ctl("restart", 1))
        self.await_generation(job, 3)
        self.assertIn("there is no rank 2", self.ctl("restart", 2, rc=2))
        self.finish()
        self.assertSays(self.assertEnds(job.wait(), 0), "3 generations; 2 changes .asked for 2x.$")
        self.assertGenerationsFit([0, 0, 0])

    def test_hosts_that_are_removed_and_added(self):
        self.write("hosts", "alpha:1\nbeta:1\n")
        job = self.start(*TWO_HOSTS, "--discover", f"file:{self.folder}/hosts", "-np", 2, "--min-np", 1, *RESTARTS,
                         *self.train())
        self.await_generation(job, 1)
        self.ctl("remove", "gamma", rc=2)
        self.assertIn("nothing changes: beta is there, with 1 slot", self.ctl("add", "beta"))
        self.assertIn("beta leaves", self.ctl("remove", "beta"))
        self.await_generation(job, 2, size=1)
        self.assertIn("cannot hold --min-np", self.ctl("remove", "alpha", rc=75))
        self.assertIn("cannot hold --min-np", self.ctl("stop", 0, rc=75))
        self.assertIn("beta added", self.ctl("add", "beta:1"))
        self.await_generation(job, 3, size=2)
        self.finish()
        done = self.assertEnds(job.wait(), 0)
        self.assertInOrder(done.err, "beta leaves: removed by the user", "generation 2: 1 rank on 1 host",
                           "generation 3: 2 ranks on 2 hosts", "3 generations; 2 changes .hosts")

    def test_a_host_that_cannot_be_reached_is_told_so_when_it_is_added_and_goes_when_it_is_removed(self):
        job = self.start("-np", 2, "--min-np", 1, "--max-np", 4, *RESTARTS, *self.train())
        self.await_generation(job, 1, size=2)
        self.assertRegex(self.ctl("add", "nowhere.invalid:2"),
                         r"^nowhere.invalid added; not reached yet: cannot connect: .*, tried again in [\d.]+ s$")
        self.assertRegex(self.ctl("world"), r"(?m)^nowhere.invalid +absent +2 +0 +[\d.]+ s +cannot connect: ")
        self.assertIn("leaves", self.ctl("remove", "nowhere.invalid"))
        self.assertNotIn("nowhere", self.ctl("world"))
        self.finish()
        self.assertEnds(job.wait(), 0)

    def test_a_host_that_was_added_stays_when_the_discovery_lists_others(self):
        self.write("hosts", "alpha:1\n")
        job = self.start(*TWO_HOSTS, "--discover", f"file:{self.folder}/hosts", "--discovery-interval", "100ms", "-np", 2,
                         "--min-np", 1, "--max-np", 3, *RESTARTS, "--start-timeout", 1, *self.train())
        self.await_generation(job, 1, size=1)
        self.assertIn("beta added", self.ctl("add", "beta:1"))
        self.await_generation(job, 2, size=2)
        self.write("hosts", "alpha:2\n")
        self.await_generation(job, 3, size=3)
        self.assertIn("beta leaves", self.ctl("remove", "beta"))
        self.await_generation(job, 4, size=2)
        self.finish()
        self.assertQuietOn(self.assertEnds(job.wait(), 0), "no longer listed: beta")

    def test_stop_of_a_rank_makes_the_world_smaller(self):
        job = self.start("-np", 3, "--min-np", 1, *RESTARTS, *self.train())
        self.await_generation(job, 1, size=3)
        self.assertIn("rank 1 ends", self.ctl("stop", 1))
        self.await_generation(job, 2, size=2)
        self.assertIn("1 slot not used: stopped by the user", self.ctl("world"))
        self.finish()
        self.assertSays(self.assertEnds(job.wait(), 0), "the user stopped rank 1", "2 generations; 1 change .asked for.$")

    def test_end(self):
        job = self.start("-np", 2, *RESTARTS, *self.train())
        self.await_generation(job, 1)
        self.assertIn("ending the job", self.ctl("end"))
        self.assertSays(self.assertEnds(job.wait(), 143), "ended by ctl end")

    def test_what_comes_too_late_is_refused(self):
        job = self.start("-np", 2, "--min-np", 1, *RESTARTS[:2], "--grace", 30, "--tag", "none", WORKER, "on", 1, "exit",
                         0, "--", "stubborn")
        job.wait_for("ready|waiting")
        job.wait_until(lambda: "ended" in self.ctl("world"), "rank 1 is known to have ended")
        self.assertIn("rank 1 has ended", self.ctl("restart", 1, rc=2))
        self.ctl("end")
        for words in (("restart",), ("stop", 0), ("remove", "localhost"), ("add", "beta:1")):
            self.assertIn("the job is ending", self.ctl(*words, rc=75))
        job.signal(signal.SIGINT)
        self.assertEnds(job.wait(), 143)


if __name__ == "__main__":
    main()
