"""What the benches share: one run with its cost, runs in turns, medians, and RESULTS.md. Standard library only."""
import argparse
import collections
import datetime
import json
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
RESULTS = os.path.join(HERE, "RESULTS.md")
TRAINRUN = os.path.abspath(os.environ.get("TRAINRUN_BIN", os.path.join(ROOT, "build/release/bin/trainrun")))
TOOLS = os.path.abspath(os.environ.get("TRAINRUN_BENCH_TOOLS", os.path.dirname(TRAINRUN)))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "lab"))
# Peers find what they need in the ordinary places; nothing of the caller's environment makes one run unlike another.
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": os.path.expanduser("~"),
               "LANG": "C.UTF-8", "TERM": "dumb", "USER": "root", "LOGNAME": "root", "SHELL": "/bin/bash",
               "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
ENVIRONMENT.update({name: os.environ[name] for name in os.environ if name.endswith("SAN_OPTIONS")})

Cost = collections.namedtuple("Cost", "wall gone code hung left_behind cpu own_cpu own_peak_kib out err")
"""One run. wall: until the command ended; gone: until everything it had started ended too; cpu: of all of it, own_cpu:
of the command and the children it waited for (seconds); own_peak_kib: its largest memory; out, err: what it wrote."""


def skip(reason):
    print(f"SKIP: {reason}")
    sys.exit(77)


def tool(name):
    path = os.path.join(TOOLS, "bench_" + name)
    if not os.path.exists(path):
        skip(f"{path} is not built")
    return path


def program(name):
    """The path of a peer, or None."""
    return shutil.which(name, path=ENVIRONMENT["PATH"])


def missing(*peers):
    """Lines that name those of the peers that are not installed."""
    absent = [name for name in peers if not program(name)]
    return [f"not here: {', '.join(absent)}", ""] if absent else []


def no_lab():
    """Why no lab of many hosts can be made here, or None."""
    import lab
    return lab.unavailable()


def free_port():
    import socket
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Place:
    """Where commands run: this machine."""
    def __init__(self):
        # /var/tmp: hosts of a lab see it too.
        self.folder = tempfile.mkdtemp(prefix="trainrun-bench-", dir="/var/tmp")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)

    def popen(self, argv, **options):
        return subprocess.Popen(argv, env=ENVIRONMENT, cwd=self.folder, **options)

    def start(self, command, deadline, **options):
        """Starts it under bench_timed; `finish` waits for its end."""
        self.report = os.path.join(self.folder, "cost")
        if os.path.exists(self.report):
            os.remove(self.report)
        argv = [tool("timed"), self.report, str(int(deadline)), *map(str, command)]
        return self.popen(argv, stdin=subprocess.DEVNULL, **options)

    def finish(self, process, out="", err=""):
        process.wait()
        try:
            with open(self.report) as file:
                cost = json.load(file)
        except OSError:
            raise RuntimeError(f"bench_timed gave no report (exit code {process.returncode}): {err}") from None
        return Cost(cost["wall_ns"] / 1e9, cost["gone_ns"] / 1e9, cost["code"], bool(cost["hung"]), cost["left_behind"],
                    cost["cpu_us"] / 1e6, cost["own_cpu_us"] / 1e6, cost["own_peak_kib"], out, err)

    def run(self, command, deadline=60, keep_output=False):
        """keep_output: or it goes to /dev/null, as is usual where launching alone is measured."""
        to = subprocess.PIPE if keep_output else subprocess.DEVNULL
        process = self.start(command, deadline, stdout=to, stderr=subprocess.PIPE, text=True, errors="replace")
        out, err = process.communicate()
        return self.finish(process, out or "", err)


class LabPlace(Place):
    """Where commands run: the head of a lab of its own, with `count` more hosts."""
    def __init__(self, count):
        super().__init__()
        import lab
        self.lab = lab.Lab(count, share=[os.path.dirname(TRAINRUN), TOOLS])

    def __exit__(self, *_):
        self.lab.stop()
        super().__exit__()

    def popen(self, argv, **options):
        return self.lab.popen("head", argv, env=ENVIRONMENT, cwd=self.folder, **options)


def in_turns(contestants, runs):
    """contestants: {name: function that makes one run}. A warm-up of each, then A B C A B C ...; {name: [Cost]}."""
    costs = {name: [] for name in contestants}
    for turn in range(runs + 1):
        for name, run in contestants.items():
            cost = run()
            if turn > 0:
                costs[name].append(cost)
    return costs


def median(values):
    return statistics.median(values) if values else float("nan")


def good(costs):
    """Those that ended by themselves and well: a hang has no time."""
    return [cost for cost in costs if cost.code == 0 and not cost.hung]


def how(cost):
    return f"{'hung' if cost.hung else f'exit code {cost.code}'}: {cost.err.strip()}"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]


# What a reader of the numbers must know


def _first_line(command):
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env=ENVIRONMENT, timeout=30)
        return done.returncode == 0 and next((line.strip() for line in done.stdout.splitlines() if line.strip()), "?")
    except (OSError, subprocess.TimeoutExpired):
        return None


def machine():
    with open("/proc/meminfo") as file:
        memory = int(re.search(r"MemTotal:\s+(\d+)", file.read()).group(1)) / (1 << 20)
    with open("/proc/loadavg") as file:
        load = file.read().split()[0]
    return f"{len(os.sched_getaffinity(0))} cores, {memory:.0f} GiB, Linux {os.uname().release}, load {load} at the start"


def versions(peers):
    """`peers`: {name: command that prints its version}."""
    said = [_first_line([TRAINRUN, "--version"]) or "trainrun ?"]
    for name, command in peers.items():
        line = _first_line(command)
        if line:
            number = re.search(r"\d+(\.\d+)+", line)
            said.append(f"{name} {number.group(0) if number else line}")
    return ", ".join(said)


def options(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--smallest", action="store_true", help="once, small: only whether it works (what ctest runs)")
    parser.add_argument("--record", action="store_true", help="write a dated section to tests/bench/RESULTS.md")
    return parser


class Report:
    """Lines that are printed as they come, and recorded when asked."""
    def __init__(self, bench, peers):
        words = [word for word in sys.argv[1:] if word != "--record"]
        self._head = [f"## {datetime.date.today().isoformat()} {bench}", "",
                      f"`tests/bench/{bench}{''.join(' ' + shlex.quote(word) for word in words)}`  ", f"{machine()}  ",
                      versions(peers), ""]
        self._lines = []
        print("\n".join(self._head[2:]))

    def add(self, lines):
        for line in lines:
            print(line, flush=True)
            self._lines.append(line)

    def end(self, failures, skipped, record):
        """Says what failed, or why something was left out, or records. The exit code."""
        if failures:
            print("\n".join(["FAILED:", *failures]))
            return 1
        if skipped:
            skip(skipped)
        if record:
            with open(RESULTS, "a") as file:
                file.write("\n" + "\n".join(self._head + self._lines).rstrip("\n") + "\n")
            print("recorded in tests/bench/RESULTS.md")
        return 0
