"""A host behind a slow link: what its ranks printed takes longer to come than a stuck process is waited for, and the news
of their ends come behind it."""
import os
import signal

from harness import main
from lab_harness import SshTest

LINES = 150_000  # 939 KB, a quarter of a minute on this link; they fit in what may be under way
RATE = "500kbit"
PRINTED = "".join(f"{number}\n" for number in range(1, LINES + 1))
GIVEN_UP = ("survived SIGKILL", "giving it up", "giving up on", "was lost", "could not be written", "was not read", "did not end", "needed SIGKILL")
# The agent may have to be brought to the host first: the link gets slow once the ranks run.
GATE = "echo up >&2; while [ ! -e go ]; do sleep 0.1; done; "


class SlowLink(SshTest):
    NODES = 2

    def start_slow(self, rate, ranks, *words):
        job = self.start(*words)
        job.wait_for("up", stream="err", count=ranks)
        self.addCleanup(self.lab.slow, "node1")
        self.lab.slow("node1", rate=rate)
        with open(self.folder + "/go", "w", encoding="ascii"):
            pass
        return job

    def await_printed(self, job):
        """The rank behind the link has written all, most of which is still on its way."""
        job.wait_until(lambda: job.ended or os.path.exists(self.folder + "/printed"), "the rank has printed")
        self.assertFalse(job.ended, job.result_so_far())
        self.assertLess(len(job.buffers["out"]), len(PRINTED) // 2)

    def start_printing(self, rate):
        script = GATE + f"seq {LINES}; : > printed; exec sleep 1000"
        job = self.start_slow(rate, 1, "--grace", 1, "-H", "node1", "sh", "-c", script)
        self.await_printed(job)
        return job

    def test_a_job_that_is_ended_shows_all_and_gives_no_host_up(self):
        job = self.start_printing(RATE)
        job.signal(signal.SIGTERM)
        done = self.assertEnds(job.wait(), 143)
        self.assertEqual(done.out, PRINTED)
        self.assertSays(done, r"^trainrun: node1: its reports arrive \d+\.\d s late: ", "ended by SIGTERM", "1 rank ended after SIGTERM")
        self.assertQuietOn(done, *GIVEN_UP)

    def test_who_asks_twice_is_not_kept_waiting_by_what_is_on_its_way(self):
        job = self.start_printing("100kbit")  # more than a minute for all of it
        job.signal(signal.SIGTERM)
        job.wait_for(r"trainrun: SIGTERM: ending 1 rank", stream="err")
        job.signal(signal.SIGINT)
        done = self.assertEnds(job.wait(), 143)
        self.assertSays(done, r"^trainrun: node1: its reports arrive \d+\.\d s late, after 5\.0 s: giving it up",
                        "SIGINT again: killing")
        self.assertTrue(PRINTED.startswith(done.out))
        self.assertLess(len(done.out), len(PRINTED))

    def test_an_elastic_job_keeps_the_host(self):
        # Rank 0 is behind the link; rank 1 fails once rank 0 has printed.
        script = ("[ -e failed ] && { echo again $RANK; exit; }; " + GATE +
                  f"if [ $RANK = 0 ]; then seq {LINES}; : > printed; exec sleep 1000; fi; "
                  "while [ ! -e printed ]; do sleep 0.1; done; : > failed; exit 3")
        job = self.start_slow(RATE, 2, "--grace", 1, "-np", 2, "--min-np", 1, "--on-failure", "restart-world", "--tag", "none",
                              "-H", "node1:1,node2:1", "sh", "-c", script)
        self.await_printed(job)
        done = self.assertEnds(job.wait(), 0)
        self.assertTrue(done.out.startswith(PRINTED), done.out[-200:])
        self.assertEqual(sorted(done.out[len(PRINTED):].splitlines()), ["again 0", "again 1"])
        self.assertSays(done, r"^trainrun: node1: its reports arrive ", "generation 2: 2 ranks on 2 hosts")
        self.assertQuietOn(done, *GIVEN_UP)


if __name__ == "__main__":
    main()
