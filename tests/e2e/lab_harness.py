"""Tests over ssh: jobs that are started on `head` of a lab and reach its nodes. See tests/lab/README.md."""
import os
import selectors
import shutil
import subprocess
import tempfile
import time
import unittest

import harness
from harness import DEADLINE, TRAINRUN, EndToEndTest, Job
from lab import HOME, Lab, unavailable

AGENT_CACHE = HOME + "/.cache/trainrun/"


class SshTest(EndToEndTest):
    """One lab a class. After each test every host has the processes it had before, and no file more but the agent's
    cache."""
    NODES = 3
    OPTIONS = {}
    MAY_REMAIN = (AGENT_CACHE, "/run/mount/")  # the latter is what mount(8) leaves

    @classmethod
    def setUpClass(cls):
        reason = unavailable()
        if reason:
            raise unittest.SkipTest(reason)
        cls.lab = Lab(cls.NODES, **cls.OPTIONS)
        cls.addClassCleanup(cls.lab.stop)

    @staticmethod
    def shared_folder(add_cleanup):
        """/var/tmp is the machine's, so all hosts see it."""
        folder = tempfile.mkdtemp(prefix="trainrun-test-", dir="/var/tmp")
        add_cleanup(shutil.rmtree, folder, ignore_errors=True)
        return folder

    def setUp(self):
        super().setUp()
        self.folder = self.shared_folder(self.addCleanup)  # as the working directory of jobs it is everywhere
        self.before = {host: self.keys(host) for host in self.lab.hosts}
        self.files_before = {host: self.lab.files(host) for host in self.lab.hosts}
        self.jobs = []

    def tearDown(self):
        try:
            for host in self.lab.hosts:
                self.assertGone(host)
                self.assertNoFiles(host)
            self.assertReplays()
        finally:
            for job in self.jobs:
                if not job.ended:
                    job.kill_all()
                job.close()
            for process in self.strangers():
                harness.kill(process.outer)

    def keys(self, host):
        return {(process.pid, process.started) for process in self.lab.processes(host)}

    def new(self, host):
        """Processes of a host that were not there before the test."""
        return [process for process in self.lab.processes(host) if (process.pid, process.started) not in self.before[host]]

    def strangers(self):
        return [process for host in self.lab.hosts for process in self.new(host)]

    def start(self, *words, env=None, feed=None, host="head", cwd=None, program=TRAINRUN):
        command = [program, *map(str, words)]
        given = {name: value for name, value in harness.BASE_ENVIRONMENT.items() if name.endswith("_OPTIONS")}
        process = self.lab.popen(host, command, env={**given, **self.journals.environment, **(env or {})}, cwd=cwd or self.folder,
                                 stdin=subprocess.PIPE if feed is not None else subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        job = Job(process, command, feed, lambda: [stranger.outer for stranger in self.strangers()])
        self.jobs.append(job)
        return job

    def run_job(self, *words, timeout=DEADLINE, **options):
        return self.start(*words, **options).wait(timeout)

    def on(self, host, script):
        """Prepares a host by a line of shell."""
        done = self.lab.run(host, ["sh", "-c", script])
        self.assertEqual(done.returncode, 0, f"{script}: {done.stderr}")
        return done.stdout

    def lone_trainrun(self):
        """A trainrun that head alone has, with no agent beside it: one has to be brought to every other host."""
        self.on("head", f"mkdir -p /tmp/lone/bin && cp {TRAINRUN} /tmp/lone/bin/trainrun")
        self.addCleanup(self.on, "head", "rm -r /tmp/lone")
        for host in self.lab.hosts:
            self.addCleanup(self.on, host, f"rm -rf {AGENT_CACHE}")
        self.files_before["head"].add("/tmp/lone/bin/trainrun")
        return "/tmp/lone/bin/trainrun"

    def assertGone(self, host, timeout=DEADLINE):
        deadline = time.monotonic() + timeout
        while left := self.new(host):
            if time.monotonic() > deadline:
                report = harness.describe(process.outer for process in left)
                for process in left:
                    harness.kill(process.outer)
                self.fail(f"on {host} {len(left)} processes are left after {timeout:.0f} s: {left}\n{report}")
            _await_end(left[0].outer)

    def assertNoFiles(self, host):
        if self.files_before[host] is None:
            return
        left = {path for path in self.lab.files(host) - self.files_before[host]
                if not path.startswith(self.MAY_REMAIN)}
        self.assertEqual(left, set(), f"files are left on {host}")


def _await_end(pid):
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return
    with selectors.DefaultSelector() as selector:
        selector.register(handle, selectors.EVENT_READ)
        selector.select(0.5)
    os.close(handle)
