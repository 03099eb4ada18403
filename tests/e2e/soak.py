"""Random faults against an elastic job on four hosts: it may never hang, never end, never leave anything.

    soak.py [--seconds 60] [--faults 30] [--seed N] [--in-place | --horovod]

Faults of one seed are the same and come at the same times; what they meet depends on the machine. When the job stands
still for a minute, ends, or leaves something, the seed, the schedule and the job's output are printed.
"""
import argparse
import heapq
import random
import re
import signal
import sys
import time

import harness
from digits import Digits
from elastic_lab import COMMON, ElasticLabTest

OPTIONS = argparse.ArgumentParser()
OPTIONS.add_argument("--seconds", type=float, default=60)
OPTIONS.add_argument("--faults", type=int, default=30)
OPTIONS.add_argument("--seed", type=int, default=None)
OPTIONS.add_argument("--in-place", action="store_true", help="a program on comm, instead of an unmodified one")
OPTIONS.add_argument("--horovod", action="store_true", help="ranks that speak Horovod's bytes, in place")
GIVEN = OPTIONS.parse_args()

LEAST = 2   # hosts that can hold the smallest world, and are left in peace by faults of whole hosts


def state(process):
    try:
        with open(f"/proc/{process.outer}/stat") as file:
            return file.read().rsplit(") ", 1)[1][0]
    except OSError:
        return "X"


class Soak(ElasticLabTest):
    """The faults. What the job is, and how it shows that it goes on, is said by the classes below."""
    NODES = 4
    STALL = 60  # seconds without a step, while hosts enough are there
    PATIENCE = harness.DEADLINE  # with its beginning and its end
    LIMITS = (*COMMON, "--hang-timeout", "3s")

    def test_random_faults(self):
        self.seed = GIVEN.seed if GIVEN.seed is not None else random.SystemRandom().randrange(1 << 32)
        self.random = random.Random(self.seed)
        self.noted = 0
        self.away, self.later = {}, []  # hosts that are not as they should be, and what mends them when
        print(f"seed {self.seed}", flush=True)
        try:
            self.soak()
        except BaseException:
            print(f"{sys.argv[0]} --seconds {GIVEN.seconds:g} --faults {GIVEN.faults} --seed {self.seed}"
                  + (" --in-place" if GIVEN.in_place else "") + (" --horovod" if GIVEN.horovod else ""))
            if self.jobs:
                print(f"--- stderr\n{self.jobs[-1].err}\n--- the last of stdout\n{self.jobs[-1].out[-2000:]}")
            raise

    def soak(self):
        self.hosts = [f"node{i}" for i in range(1, self.NODES + 1)]
        self.listed = set(self.hosts)
        self.list_hosts()
        self.size = 2 * self.NODES
        program = self.program()
        self.job = self.start(*self.LIMITS, *self.POLICY, "--discovery-interval", "200ms", "--reset-limit", "1000/5s",
                              "--blacklist-cooldown-range", "1s", "2s", *self.discovery(), "-np", self.size, *program)
        self.job.wait_until(self.all_serve, "all ranks have begun", self.PATIENCE)
        self.start_time = self.moved_at = time.monotonic()
        self.step = 0
        kinds = [getattr(self, name) for name in sorted(dir(self)) if name.startswith("fault_")]
        for at, kind, host, seed in self.plan(kinds):
            self.live_until(self.start_time + at)
            self.random = random.Random(seed)
            self.note(kind.__name__[6:], host, kind(host))
        while self.later:
            self.live_until(max(self.later[0][0], time.monotonic()) + 0.1)
        self.note("no more faults", "", None)
        # The last fault may have come just now, and what serves then is the world that it ends.
        seen = self.steps()
        self.job.wait_until(lambda: self.all_serve() and self.steps() > seen + 1, "all hosts serve again", 3 * self.PATIENCE)
        done = self.conclude()
        print(f"{GIVEN.faults} faults; {done.err.splitlines()[-1]}")

    def discovery(self):
        return "--discover", f"file:{self.folder}/hosts"

    def plan(self, kinds):
        """When, what, where; what is left to chance at that time has a seed of its own, so that nothing that happens
        changes the rest."""
        return sorted(((self.random.uniform(0, GIVEN.seconds), self.random.choice(kinds), self.random.choice(self.hosts),
                        self.random.randrange(1 << 32)) for _ in range(GIVEN.faults)), key=lambda fault: fault[0])

    def live_until(self, deadline):
        """Mends what is to be mended, and sees that steps are made."""
        while (now := time.monotonic()) < deadline:
            if self.later and self.later[0][0] <= now:
                _, _, host, mend, what = heapq.heappop(self.later)
                mend()
                del self.away[host]
                self.note(what, host, None)
                continue
            self.job._pump(min(deadline - now, 0.2))
            self.assertFalse(self.job.ended, "the job ended")
            if (step := self.steps()) != self.step:
                self.step, self.moved_at = step, now
            if now - self.moved_at > self.STALL:
                self.job.hang(f"no step for {self.STALL} s")

    def note(self, what, host, said):
        """A line of the schedule."""
        line = f"{time.monotonic() - self.start_time:7.2f} s  step {self.step:6}  {what} {host} {said or ''}".rstrip()
        self.noted += 1
        print(line, flush=True)

    # Faults: what they did, or None when they met nobody. One that takes a host away also says what brings it back.

    def take_away(self, host, mend, what, least=1.0, most=10.0):
        """Whether the host may go now."""
        if host in self.away or sum(other not in self.away for other in self.hosts) <= LEAST:
            return False
        self.mend_later(host, mend, what, least, most)
        return True

    def mend_later(self, host, mend, what, least=1.0, most=10.0):
        self.away[host] = what
        at = time.monotonic() + self.random.uniform(least, most)
        heapq.heappush(self.later, (at, self.noted, host, mend, what))

    def strike_one(self, host, find, number=signal.SIGKILL):
        """One of those that find(host) gives; on the next host when nobody is there."""
        first = self.hosts.index(host)
        for other in self.hosts[first:] + self.hosts[:first]:
            if processes := find(other):
                process = self.random.choice(processes)
                self.strike(process, number)
                return f"pid {process.pid}" + (f" of {other}" if other != host else "")
        return "nobody is there"

    # An agent and its watcher are each other's keeper: what happens to both at once is not promised to leave nothing.

    def agents(self, host):
        ours = self.pids_of_ours(host)
        return [process for process in ours.values() if process.ppid in ours]

    def watchers(self, host):
        able = {agent.ppid for agent in self.agents(host) if state(agent) != "T"}
        return [process for process in self.pids_of_ours(host).values() if process.pid in able]

    def pids_of_ours(self, host):
        return {process.pid: process for process in self.new(host) if "/agent-" in process.command}

    def fault_worker_killed(self, host):
        return self.strike_one(host, self.workers_of)

    def fault_worker_crashed(self, host):
        return self.strike_one(host, self.workers_of, signal.SIGSEGV)

    def fault_worker_stopped(self, host):
        return self.strike_one(host, self.workers_of, signal.SIGSTOP)

    def fault_agent_killed(self, host):
        return self.strike_one(host, self.agents)

    def fault_agent_stopped(self, host):
        return self.strike_one(host, self.agents, signal.SIGSTOP)

    def fault_agent_told_to_leave(self, host):
        return self.strike_one(host, self.agents, signal.SIGTERM)

    def fault_watcher_killed(self, host):
        return self.strike_one(host, self.watchers)

    def fault_ssh_killed(self, host):
        return self.strike_one(host, lambda at: [process for process in self.new(at) if "sshd" in process.command])

    def fault_launcher_stopped(self, _):
        """Shorter than the hosts' time-out: nothing may come of it."""
        self.job.signal(signal.SIGSTOP)
        try:
            self.lab.run("switch", ["sleep", "1"])
        finally:
            self.job.signal(signal.SIGCONT)

    def fault_no_power(self, host):
        if not self.take_away(host, lambda: self.revive(host), "power again", least=3):
            return "left in peace"
        self.before[host] = set()
        self.files_before[host] = None
        self.lab.kill(host, power=True)
        return None

    def fault_cut(self, host):
        if not self.take_away(host, lambda: self.lab.heal(host), "cable again", least=0.2):
            return "left in peace"
        self.lab.cut(host)
        return None

    def fault_slow(self, host):
        if not self.take_away(host, lambda: self.lab.slow(host), "fast again"):
            return "left in peace"
        self.lab.slow(host, delay_ms=200)
        return None

    def fault_unlisted(self, host):
        if not self.take_away(host, lambda: self.list_hosts(come=host), "listed again"):
            return "left in peace"
        self.list_hosts(go=host)
        return None

    def fault_removed(self, host):
        if not self.take_away(host, lambda: self.ctl("add", host + ":2"), "added again"):
            return "left in peace"
        return self.ctl("remove", host)

    def fault_restart_asked_for(self, _):
        return self.ctl("--force", "restart")

    def list_hosts(self, come=None, go=None):
        self.listed = (self.listed | {come}) - {None, go}
        self.write("hosts", "".join(f"{host}:2\n" for host in self.hosts if host in self.listed))


class Restart(Soak):
    """An unmodified program with a checkpoint."""

    def program(self):
        return self.train()

    def steps(self):
        with open(self.folder + "/checkpoint") as file:
            return int(file.read())

    def all_serve(self):
        starts = self.starts()
        newest = max((start["generation"] for start in starts), default=0)
        return len(self.starts(newest)) == self.size and f" of generation {newest}\n" in self.job.out

    def conclude(self):
        self.finish()
        done = self.assertEnds(self.job.wait(), 0)
        self.assertHistoryFits()
        return done

    def assertHistoryFits(self):
        """In each generation all agree, no rank is there twice; nothing that was saved is lost."""
        seen, ranks = {}, set()
        for start in self.starts():
            own = tuple(start[key] for key in ("port", "size", "restart", "from"))
            self.assertEqual(seen.setdefault(start["generation"], own), own, start)
            self.assertNotIn((start["generation"], start["rank"]), ranks, start)
            ranks.add((start["generation"], start["rank"]))
        for key in (2, 3):
            values = [seen[generation][key] for generation in sorted(seen)]
            self.assertEqual(values, sorted(values))


class InPlace(Digits, Soak):
    """examples/elastic_digits, which is ended in the end: every epoch until then has used every digit once."""

    def program(self):
        return self.digits("--checkpoint", self.folder + "/checkpoint", pace=20, epochs=1000000)

    def steps(self):
        return self.job.out.count(" held-out ")

    def all_serve(self):
        newest = re.findall(r"generation (\d+): rank \d+ of (\d+)", self.job.out)[-self.size:]
        begun = len(newest) == self.size and len(set(newest)) == 1 and newest[0][1] == str(self.size)
        return begun and " held-out " in self.job.out.rsplit(": rank ", 1)[1]

    def conclude(self):
        self.ctl("end")
        done = self.assertEnds(self.job.wait(), 143)
        for epoch in range(1, max(map(int, re.findall(r"epoch +(\d+)/", done.out)))):
            self.assertEachUsedOnce(epoch, done)
        return done


class Horovod(Soak):
    """tests/workers/horovod_elastic.py: rank 0 has survived wherever anybody has, and with it what was trained."""
    POLICY = ("--compat", "horovod", "-x", "HOROVOD_GLOO_TIMEOUT_SECONDS=5")
    PROGRAM = "/usr/bin/python3"

    def program(self):
        return [self.PROGRAM, harness.without_blanks(harness.ROOT + "/tests/workers/horovod_elastic.py"), self.folder]

    def steps(self):
        return len(re.findall(r"^\[0\] step ", self.job.out, re.MULTILINE))

    def all_serve(self):
        worlds = list(re.finditer(r"world of (\d): rank (\d)", self.job.out))[-self.size:]
        begun = {world[2] for world in worlds if world[1] == str(self.size)}
        return len(begun) == self.size and "[0] step " in self.job.out[worlds[-1].end():]

    def conclude(self):
        self.write("end", "")
        done = self.assertEnds(self.job.wait(self.PATIENCE), 0)
        self.assertEqual(len(re.findall(rf"end of rank \d of {self.size}", done.out)), self.size)
        starts = [int(step) for step in re.findall(r"world of \d: rank 0, .* from step (\d+)", done.out)]
        lost = [line for line in re.findall("generation .*", done.err) if " ranks on " in line and "state kept" not in line]
        self.assertLessEqual(sum(after < before for before, after in zip(starts, starts[1:])), len(lost) - 1, "steps were lost")
        return done


def load_tests(loader, _tests, _pattern):
    return loader.loadTestsFromTestCase(Horovod if GIVEN.horovod else InPlace if GIVEN.in_place else Restart)


if __name__ == "__main__":
    sys.argv[1:] = []
    harness.main()
