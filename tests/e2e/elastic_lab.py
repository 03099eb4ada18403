"""What tests of elastic jobs in the lab share: a job over three hosts with two ranks each, and its ends."""
import os
import signal

from harness import TRAINRUN, WORKER
from lab_harness import SshTest
from training import Training

COMMON = ("--min-np", 4, "--host-timeout", "2s", "--grace", "1s", "--settle", "200ms")


class ElasticLabTest(Training, SshTest):
    NODES = 3
    POLICY = ("--on-failure", "restart-world")
    PROGRAM = WORKER

    def setUp(self):
        super().setUp()
        self.runtime = self.folder + "/run"  # where the sockets of `trainrun ctl` are
        os.mkdir(self.runtime, 0o700)

    def start(self, *words, **options):
        return super().start(*words, env={"XDG_RUNTIME_DIR": self.runtime}, **options)

    def begin(self, *words, hosts=("-np", 6, "-H", "node1:2,node2:2,node3:2"), size=6, wrapper=()):
        self.job = self.start(*COMMON, *self.POLICY, *words, *hosts, *wrapper, *self.program())
        return self.await_generation(self.job, 1, size)

    def program(self):
        return self.train()

    def workers_of(self, host):
        return [process for process in self.new(host) if process.command.startswith(self.PROGRAM)]

    def agent(self, host):
        """The agent of a host: the parent of its workers."""
        worker = self.workers_of(host)[0]
        return next(process for process in self.new(host) if process.pid == worker.ppid)

    def strike(self, process, number=signal.SIGKILL):
        os.kill(process.outer, number)

    def end(self, restarts, *said):
        """The training ends well after as many generations as `restarts` has numbers."""
        self.finish()
        done = self.assertEnds(self.job.wait(), 0)
        self.assertInOrder(done.err, *said)
        self.assertGenerationsFit(restarts)
        return done

    def assertEndsOn(self, host, processes, what):
        """These processes of the host end while the job goes on."""
        old = {(process.pid, process.started) for process in processes}
        self.job.wait_until(lambda: not old & self.keys(host), f"{what} on {host} end")

    def lose(self, host):
        """The host loses power; it is brought back after the test."""
        self.before[host] = set()
        self.files_before[host] = None
        self.lab.kill(host, power=True)
        self.addCleanup(self.revive, host)

    def revive(self, host):
        self.lab.revive(host)
        self.on(host, "rm -rf /dev/shm/trainrun.* /tmp/trainrun.*")
        self.before[host] = {(process.pid, process.started) for process in self.lab.processes(host)
                             if "/usr/sbin/sshd -f" in process.command}

    def ctl(self, *words):
        # Jobs of other tests may run on this machine, and have their sockets where every ctl looks.
        own = [name[:-len(".sock")] for _, _, names in os.walk(self.runtime) for name in names if name.endswith(".sock")]
        done = self.lab.run("head", [TRAINRUN, "ctl", "--job", *(own or ["0" * 16])[:1], *words], env={"XDG_RUNTIME_DIR": self.runtime})
        self.assertIn(done.returncode, (0, 75), done.stderr)
        return (done.stdout + done.stderr).strip().replace("\n", "; ")
