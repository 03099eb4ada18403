"""Nothing survives on any host: not after the death of launcher, agent, ssh session or host, nor a cut cable."""
import os
import signal

from harness import WORKER, main
from lab_harness import SshTest

HOSTS = "head:1,node1:2,node2:2"
VERBS = (("wait",), ("stubborn",), ("daemon", "wait"), ("holder", "wait"), ("deaf",))
COMMON = ("--grace", 2, "--host-timeout", 3, "-H", HOSTS, WORKER)


# Rank 0 ends as soon as it sees that rank 1 has, which has memory to give back when it is killed.
PEERS = """import os, signal, socket, sys
if os.environ["RANK"] == "1":
    door = socket.create_server(("0.0.0.0", 0))
    with open("port.new", "w") as file:
        file.write(str(door.getsockname()[1]))
    os.rename("port.new", "port")
    memory = b"x" * (200 << 20)
    door.accept()
    os.kill(os.getpid(), signal.SIGKILL)
while not os.path.exists("port"):
    pass
socket.create_connection((os.environ["PEER"], int(open("port").read()))).recv(1)
sys.exit(os.environ["WORDS"])
"""


def lost(host):
    """The first line of the report of a job that ended because of this host."""
    return rf"^trainrun: host {host} \(ranks? [-\d,]+\) was lost .* after the start: "


class Deaths(SshTest):
    NODES = 2

    def ready(self, *verb, words=()):
        job = self.start(*words, *COMMON, *verb)
        job.wait_for("ready", count=5)
        return job

    def of(self, host, needle):
        return [process for process in self.new(host) if needle in process.command]

    def agent(self, host):
        """The agent of a host: the parent of its workers."""
        worker = next(process for process in self.new(host) if process.command.startswith(WORKER))
        return next(process for process in self.new(host) if process.pid == worker.ppid)

    def assertAllGone(self, job):
        """On every host, also while some are cut off."""
        for host in self.lab.hosts:
            self.assertGone(host)

    def test_kill_9_of_the_launcher(self):
        for verb in VERBS:
            with self.subTest(worker=verb):
                job = self.ready(*verb)
                job.signal(signal.SIGKILL)
                job.process.wait()
                self.assertAllGone(job)
        self.run_job("ctl", "list")  # whoever looks for jobs removes the sockets of the dead

    def test_kill_9_of_an_agent(self):
        for verb in VERBS:
            with self.subTest(worker=verb):
                job = self.ready(*verb)
                os.kill(self.agent("node1").outer, signal.SIGKILL)
                self.assertSays(self.assertEnds(job.wait(), 69), lost("node1"))
                self.assertAllGone(job)

    def test_kill_9_of_the_ssh_session(self):
        for verb in VERBS[:3]:
            with self.subTest(worker=verb):
                job = self.ready(*verb)
                for process in self.of("node1", "sshd"):
                    os.kill(process.outer, signal.SIGKILL)
                self.assertSays(self.assertEnds(job.wait(), 69), lost("node1"))
                self.assertAllGone(job)

    def test_what_ssh_says_of_its_end_is_told(self):
        job = self.ready("wait", words=("--transport", "openssh"))
        for process in self.of("node1", "sshd"):
            os.kill(process.outer, signal.SIGKILL)
        self.assertSays(self.assertEnds(job.wait(), 69), "its last words: 'Connection to node1 closed by remote host.'")
        self.assertAllGone(job)

    def test_a_cut_cable(self):
        for verb in VERBS[:3]:
            with self.subTest(worker=verb):
                job = self.ready(*verb)
                self.lab.cut("node2")
                self.assertSays(self.assertEnds(job.wait(), 69), lost("node2"))
                # The sshd of a cut host waits for TCP to give up; it is sshd's, and dies with the connection.
                self.assertHostHasOnly("node2", "sshd")
                self.assertGone("head")
                self.assertGone("node1")
                self.lab.heal("node2")
                self.assertAllGone(job)

    def assertHostHasOnly(self, host, needle):
        """Everything new on the host but `needle` ends."""
        saved = self.before[host]
        self.before[host] = saved | {(process.pid, process.started) for process in self.of(host, needle)}
        try:
            self.assertGone(host)
        finally:
            self.before[host] = saved

    def test_a_host_that_dies_of_everything_at_once(self):
        job = self.ready("wait")
        self.lose("node1", power=False)
        self.assertSays(self.assertEnds(job.wait(), 69), lost("node1"))
        self.assertAllGone(job)

    def test_a_host_that_loses_power(self):
        job = self.ready("wait")
        self.lose("node1", power=True)
        self.assertSays(self.assertEnds(job.wait(), 69), lost("node1"))
        self.assertAllGone(job)

    def lose(self, host, power):
        """Every process of the host ends by force, so its files stay until it is revived."""
        self.before[host] = set()
        self.files_before[host] = None
        self.lab.kill(host, power)
        self.addCleanup(self.revive, host)

    def revive(self, host):
        self.lab.revive(host)
        self.on(host, "rm -rf /dev/shm/trainrun.* /tmp/trainrun.*")

    def test_a_failed_rank_ends_tricky_workers_on_every_host(self):
        for verb in VERBS:
            with self.subTest(worker=verb):
                job = self.start(*COMMON, "on", 4, "when", self.folder + "/go", "exit", 6, "--", *verb)
                job.wait_for("ready|waiting", count=5)
                open(self.folder + "/go", "w").close()
                self.assertEnds(job.wait(), 6)
                self.assertAllGone(job)
                os.unlink(self.folder + "/go")

    def test_a_rank_that_is_killed_is_the_cause_though_its_peers_notice_first(self):
        for words in ("my peer is gone", "Connection reset by peer"):
            for _ in range(5):
                with self.subTest(words=words):
                    done = self.run_job("-H", "node1:1,node2:1", "-x", "PEER=node2", "-x", "WORDS=" + words, "python3", "-c",
                                        PEERS, cwd=self.folder)
                    self.assertSays(self.assertEnds(done, 137), "rank 1 on node2 was killed by SIGKILL")
                    os.unlink(self.folder + "/port")

    def test_workers_that_end_well_leave_no_daemon_on_any_host(self):
        self.assertEnds(self.run_job(*COMMON, "daemon", 0), 0)
        self.assertEnds(self.run_job(*COMMON, "holder", 0), 0)

    def test_the_launcher_stopped_for_longer_than_the_host_time_out_goes_on_when_it_was_told(self):
        job = self.start("--host-timeout", 1, "-H", "node1:1,node2:1", WORKER, "signals", 0)
        job.wait_for("ready", count=2)
        job.signal(signal.SIGTSTP)
        job.wait_until(lambda: self.state(job.pid) == "T", "the launcher stops")
        # The agents are disarmed, so silence means nothing: what proves it is a host that outlives its time-out.
        self.lab.run("node1", ["sleep", "4"])
        job.signal(signal.SIGCONT)
        job.signal(signal.SIGUSR1)
        job.wait_for("got USR1", count=2)
        job.signal(signal.SIGTERM)
        self.assertEnds(job.wait(), 143)

    @staticmethod
    def state(pid):
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(") ", 1)[1][0]


if __name__ == "__main__":
    main()
