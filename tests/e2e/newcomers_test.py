"""Ranks that start beside a world that goes on: what it costs when they fail, and that they are never in its way."""
import os
import re
import signal

from digits import Digits
from harness import LocalTest, main


class NewcomersTest(Digits, LocalTest):
    """Rank 3 of four dies when it is told to, and what is started for it is `newcomer`, in the words of a shell."""
    HOSTS = ("--transport", "local", "--host-discovery-script", "./hosts", "-np", 4, "--min-np", 1)

    def environment(self, extra=None):
        return super().environment({"XDG_RUNTIME_DIR": self.folder, **(extra or {})})

    def world(self):
        # Jobs of other tests may run on this machine, and ctl would ask which one is meant.
        own = [name[:-len(".sock")] for _, _, names in os.walk(self.folder) for name in names if name.endswith(".sock")]
        return self.assertEnds(self.run_job("ctl", "--job", *own, "world"), 0).out

    def begin(self, *words, newcomer, epochs=1000):
        os.mkfifo(self.folder + "/die")
        os.mkfifo(self.folder + "/load")
        with open(self.folder + "/hosts", "w", encoding="ascii") as file:
            file.write("#!/bin/sh\necho a:1\necho b:3\n")
        os.chmod(file.name, 0o755)
        with open(self.folder + "/rank", "w", encoding="ascii") as file:
            file.write(f'''cd "{self.folder}" || exit
if [ "$TRAINRUN_GENERATION" = 0 ]; then {newcomer}; exec "$@"; fi
if [ "$RANK" = 3 ]; then "$@" & read -r _ < die; kill -9 $!; exit 1; fi
exec "$@"
''')
        self.job = self.start(*self.HOSTS, *self.POLICY, *words, "sh", self.folder + "/rank",
                              *self.digits(pace=10, epochs=epochs))
        self.await_world(self.job, 1, 4)
        with open(self.folder + "/die", "w", encoding="ascii") as file:
            file.write("now\n")
        self.await_world(self.job, 2, 3)

    def test_they_are_started_again_after_the_rest_of_their_host(self):
        self.begin("--reset-limit", 1, "--blacklist-cooldown-range", "1s", "1s", newcomer="[ -e good ] || exit 7")
        self.job.wait_for("b cools down", "err")
        with open(self.folder + "/good", "w", encoding="ascii"):
            pass
        self.await_world(self.job, 3, 4)
        self.job.signal(signal.SIGTERM)
        done = self.assertEnds(self.job.wait(), 143)
        self.assertSays(done, "^trainrun: rank 3 on b exited with code 7 before it had joined; 3 ranks go on without it; "
                              r"starting it again in",
                        r"^trainrun: rank 3 on b .*; 3 ranks go on without it\ntrainrun: b cools down",
                        "^trainrun: generation 3: 4 ranks on 2 hosts; rank 3 on b is ready; state kept by 3 survivors")

    def test_the_job_ends_while_one_loads(self):
        self.begin("--grace", "30s", newcomer="read -r _ < load", epochs=2)
        done = self.assertEnds(self.job.wait(), 0)
        self.assertSays(done, "^trainrun: starting rank 3 on b, which joins when it is ready$")
        self.assertQuietOn(done, "left .* behind", "still run")

    def test_the_user_sees_them(self):
        self.begin(newcomer="read -r _ < load")
        shown = self.world()
        self.assertRegex(shown, r"running, 3 ranks, 1 more starting \(wanted: 1 to 4\), 1 of 10 restarts used")
        self.assertRegex(shown, r"(?m)^ +3  b +2 +\d+  loading ")
        with open(self.folder + "/load", "w", encoding="ascii") as file:
            file.write("now\n")
        self.await_world(self.job, 3, 4)
        self.assertFalse(re.search("more starting|loading", self.world()))
        self.job.signal(signal.SIGTERM)
        self.assertEnds(self.job.wait(), 143)


if __name__ == "__main__":
    main()
