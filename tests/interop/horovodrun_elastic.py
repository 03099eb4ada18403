#!/usr/bin/python3
"""What horovodrun 0.28.1 and trainrun under its name make of the same lines, script and faults: a table, by hand.

    horovodrun_elastic.py [--only WORDS] [--launcher horovodrun] [--gloo-timeout 5] [--logs FOLDER]
"""
import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from environments import horovod_python, versions
from interop import InteropTest, harness
from lab import Lab, unavailable

WORLD = r"world of (\d+): rank (\d+), .* from step (\d+), pid (\d+)"
PATIENCE = 120  # seconds for each world, and for the end
LINE = ("--gloo", "--network-interface", "eth0", "--max-np", 3, "--blacklist-cooldown-range", 1, 2)


class Run:
    def __init__(self, launcher, python, words, hosts, gloo_timeout):
        self.lab = Lab(3)
        self.folder = tempfile.mkdtemp(prefix="trainrun-test-", dir="/var/tmp")
        self.before = {host: self.processes(host) for host in self.lab.hosts}
        self.told, self.ranks, self.hangs = [], {}, False
        self.list_hosts(*hosts)
        script = f"test ! -e {self.folder}/fail && cat {self.folder}/hosts"
        command = [launcher, *map(str, LINE + words), "--host-discovery-script", script, python, InteropTest.program("horovod_elastic.py"),
                   self.folder, "3"]
        process = self.lab.popen("head", command, env={"HOROVOD_GLOO_TIMEOUT_SECONDS": gloo_timeout, "OMP_NUM_THREADS": "1"}, cwd=self.folder,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.job = harness.Job(process, command)

    def processes(self, host):
        return {(process.pid, process.started): process for process in self.lab.processes(host)}

    def left(self):
        return [f"{os.path.basename(process.command.split()[0])} on {host}" for host in self.lab.hosts
                for key, process in self.processes(host).items() if key not in self.before[host] and "sshd" not in process.command]

    def list_hosts(self, *hosts):
        with open(self.folder + "/hosts.new", "w", encoding="ascii") as file:
            file.write("".join(host + "\n" for host in hosts))
        os.rename(self.folder + "/hosts.new", self.folder + "/hosts")

    def until(self, condition, seconds=PATIENCE):
        deadline = time.monotonic() + seconds
        while not condition() and not (self.job.ended and self.job.drained()):
            if time.monotonic() > deadline:
                return False
            self.job._pump(0.2)
        return condition()

    def expect(self, what, act=None):
        """Acts, and waits for a whole world that trains. What came of it, and whether it goes on."""
        said, begun = len(self.job.out), time.monotonic()
        if act:
            act(self)

        def trains():
            met = list(re.finditer(WORLD, self.job.out[said:]))
            for size in {int(one[1]) for one in met}:
                newest = [one for one in met if int(one[1]) == size][-size:]
                if {int(one[2]) for one in newest} == set(range(size)) and re.search(r"step \d+\s", self.job.out[said + newest[-1].end():]):
                    self.ranks = {int(one[2]): int(one[4]) for one in newest}
                    self.newest = (size, min(int(one[3]) for one in newest))
                    return True
            return False

        goes_on = self.until(trains)
        seconds = time.monotonic() - begun
        self.hangs = not goes_on and not self.job.ended
        if goes_on:
            self.told.append(f"{what}: {self.newest[0]} ranks from step {self.newest[1]} after {seconds:.0f} s")
        else:
            self.told.append(f"{what}: " + (f"it ended after {seconds:.0f} s" if self.job.ended else f"nothing for {PATIENCE} s"))
        return goes_on

    def kill(self, rank):
        """By its pid on whichever host has it."""
        for host in self.lab.hosts[1:]:
            for process in self.lab.processes(host):
                if process.pid == self.ranks[rank] and "horovod_elastic.py" in process.command:
                    os.kill(process.outer, signal.SIGKILL)
                    return

    def lose(self, host):
        self.lab.kill(host, power=True)

    def revive(self, host):
        self.lab.revive(host)

    def end(self):
        """(accuracy, exit code, what is left)"""
        if not self.job.ended:
            with open(self.folder + "/end", "w", encoding="ascii"):
                pass
            self.until(lambda: False, 20 if self.hangs else PATIENCE)
        hung = not self.job.ended
        if hung:
            self.job.signal(signal.SIGTERM)
            self.until(lambda: False, 20)
        ended = self.job.ended
        self.until(lambda: self.job.drained(), 5)
        time_to_go = time.monotonic() + 15
        while self.left() and time.monotonic() < time_to_go:
            self.job._pump(0.5)
        left = self.left()
        ends = re.findall(r"end of rank \d of (\d): 2\.00 x \+ 1\.00", self.job.out)
        fit = "yes" if ends and len(ends) == int(ends[0]) else "no"
        code = "does not end" if not ended else f"hangs; {self.job.process.wait()} after TERM" if hung else str(self.job.process.wait())
        self.job.close()
        self.lab.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
        return fit, code, ", ".join(left) or "nothing"


def fail_and_grow(run):
    with open(run.folder + "/fail", "w", encoding="ascii"):
        pass
    run.until(lambda: False, 3)
    run.list_hosts("node1:1", "node2:1", "node3:1")
    os.remove(run.folder + "/fail")


SCENARIOS = {
    "one host: a rank is killed, then rank 0": (
        ("-np", 3, "--min-np", 1), ["node1:3"], [("rank 1 killed", lambda run: run.kill(1)), ("rank 0 killed", lambda run: run.kill(0))]),
    "two hosts: rank 0 is killed": (
        ("-np", 3, "--min-np", 1), ["node1:2", "node2:1"], [("rank 0 killed", lambda run: run.kill(0))]),
    "the discovery fails, lists a third host, then not rank 0's": (
        ("-np", 2, "--min-np", 1), ["node1:1", "node2:1"],
        [("grown", fail_and_grow), ("rank 0's host gone", lambda run: run.list_hosts("node2:1", "node3:1"))]),
    "--reset-limit 0: a host comes, then a rank is killed": (
        ("-np", 1, "--min-np", 1, "--reset-limit", 0), ["node1:1"],
        [("grown", lambda run: run.list_hosts("node1:1", "node2:1")), ("rank 1 killed", lambda run: run.kill(1))]),
    "a host loses power and comes back": (
        ("-np", 3, "--min-np", 2), ["node1:1", "node2:1", "node3:1"],
        [("node3 lost", lambda run: run.lose("node3")), ("node3 back", lambda run: run.revive("node3"))]),
    "rank 0's host loses power and comes back": (
        ("-np", 3, "--min-np", 2), ["node1:1", "node2:1", "node3:1"],
        [("node1 lost", lambda run: run.lose("node1")), ("node1 back", lambda run: run.revive("node1"))]),
}


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", default="", help="scenarios that have these words")
    options.add_argument("--launcher", choices=["horovodrun", "trainrun"])
    options.add_argument("--gloo-timeout", default="5", help="seconds; Horovod's own choice is 30")
    options.add_argument("--logs", help="a folder for what they print")
    given = options.parse_args()
    if reason := unavailable():
        print(f"SKIP: {reason}")
        return 77
    python = horovod_python()
    links = tempfile.mkdtemp(prefix="trainrun-test-", dir="/var/tmp")
    os.symlink(harness.TRAINRUN, links + "/horovodrun")
    launchers = {"horovodrun": os.path.join(os.path.dirname(python), "horovodrun"), "trainrun": links + "/horovodrun"}
    print(*versions(python, "horovod", "torch"))
    print("|  |  | what happened | fits | exit code | left behind |\n|---|---|---|---|---|---|")
    for name, (words, hosts, faults) in SCENARIOS.items():
        for launcher in launchers if given.only in name else ():
            if given.launcher not in (None, launcher):
                continue
            run = Run(launchers[launcher], python, words, hosts, given.gloo_timeout)
            for what, act in [("start", None), *faults]:
                if not run.expect(what, act) and run.job.ended:
                    break
            fit, code, left = run.end()
            print(f"| {name} | {launcher} | {'; '.join(run.told)} | {fit} | {code} | {left} |", flush=True)
            if given.logs:
                with open(f"{given.logs}/{launcher}", "a", encoding="utf-8") as file:
                    file.write(f"=== {name}\n{run.job.out}\n--- stderr\n{run.job.err}\n")
    shutil.rmtree(links)
    return 0


if __name__ == "__main__":
    sys.exit(main())
