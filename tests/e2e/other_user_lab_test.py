"""Another user of a host cannot come near a job: its door, its key, its environment, its socket."""
import os

from digits import Digits
from elastic_lab import COMMON, ElasticLabTest
from harness import ROOT, main

NOBODY = 65534
INTRUDER = ROOT + "/tests/workers/intruder.py"


class OtherUser(Digits, ElasticLabTest):
    NODES = 2

    def environment_of(self, process):
        with open(f"/proc/{process.outer}/environ", "rb") as file:
            return dict(pair.split("=", 1) for pair in file.read().decode().split("\0") if "=" in pair)

    def intrude(self, user, *paths):
        environment = self.environment_of(self.workers_of("node1")[0])
        port = environment["TRAINRUN_RENDEZVOUS"].rsplit(":", 1)[1]
        done = self.lab.run("node1", ["/usr/bin/python3", INTRUDER, str(user), port, *paths])
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def test_one_job_and_all_that_is_tried_against_it(self):
        for folder in (self.folder, self.runtime):
            os.chmod(folder, 0o755)  # so what guards the socket of ctl is the directory that the launcher made
        self.job = self.start("-H", "node1:2,node2:2", "--min-np", 2, *COMMON[2:], *self.digits(pace=40))
        self.await_world(self.job, 1, 4)
        self.another_user_is_turned_away_and_sees_nothing()
        self.intrude(0)  # the same user needs the key
        self.the_socket_of_ctl_is_the_users_own()
        done = self.assertEnds(self.job.wait(), 0)
        self.assertTrained(done)
        self.assertQuietOn(done, "generation 2", "lost")
        line = f"node1: a process of the user {NOBODY} connected to this job's rendezvous and was turned away"
        self.assertEqual(done.err.count(line), 1, done.err)

    def another_user_is_turned_away_and_sees_nothing(self):
        worker = self.workers_of("node1")[0]
        key = self.environment_of(worker)["TRAINRUN_KEY_FILE"]
        secrets = [key, os.path.dirname(key), f"/proc/{worker.pid}/environ", f"/proc/{self.agent('node1').pid}/environ"]
        for _ in range(3):
            said = self.intrude(NOBODY, *secrets)
            self.assertEqual(said, [path + " Permission denied" for path in secrets] + ["heard 0 bytes"])
        self.assertEqual(self.intrude(0, key)[0], key + " is open")  # so the paths are those that matter

    def the_socket_of_ctl_is_the_users_own(self):
        done = self.lab.run("head", ["setpriv", f"--reuid={NOBODY}", "--clear-groups", "--regid", str(NOBODY), "ls",
                                     self.runtime + "/trainrun"])
        self.assertIn("trainrun': Permission denied", done.stderr)
        self.assertIn("node1", self.ctl("world"))


if __name__ == "__main__":
    main()
