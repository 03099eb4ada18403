"""Mutants of the brain that nobody chose: each is a line of launcher/core with one thing wrong, drawn by a seed. What neither
the unit tests nor the simulation notices is a rule that nothing demands.

    mutate.py BUILD_DIR [--count 30] [--seed YYYYMM] [--schedules 40000] [--jobs 2]
        compiles each into a private copy of `sim` and `unit_core_brain`, runs both and prints who caught it
    mutate.py BUILD_DIR --together 9 --alone 6 --limit 150
        fails when fewer of ten are caught; begins no other one after so many seconds, and then asks for the same shares
    mutate.py BUILD_DIR --list      what may be drawn, and what is left out since it changes nothing

The default seed is the month, so that each month tries others. tests/sim/mutants.py has those that stay.
"""
import argparse
import concurrent.futures
import datetime
import hashlib
import os
import re
import shlex
import subprocess
import sys
import tempfile
import threading
import time

from mutate_equivalent import EQUIVALENT

CORE = "launcher/core"
# What the simulation plays. Left out: words, what only MPI programs reach, the invariants (they judge), plain data.
FILES = ["ending.cc", "host_ledger.cc", "job_machine.cc", "job_machine_end.cc", "job_machine_finish.cc",
         "job_machine_hosts.cc", "job_machine_late.cc", "job_machine_leavers.cc", "job_machine_members.cc", "job_machine_newcomers.cc",
         "job_machine_rooms.cc", "job_machine_disruption.cc", "job_machine_verdict.cc", "job_machine_workers.cc", "job_machine_worlds.cc",
         "outcome.cc", "replan.cc", "restart_budget.cc", "restart_policy.cc", "roster.cc", "verdict.cc", "worker.cc",
         "world.cc"]
# Functions that decide nothing: they show or tell.
SHOWS = re.compile(r"to_string|describe|explain_|tell|progress\(|::hosts\(|::workers\(|host_name|awaited_hosts|::who\(|"
                   r"sounds_like|exit_code_of|who_asked|flag_of|what_follows|was_up|blame_lost_exchange|slots_suit|"
                   r"ended_for_lack_of_exchange|grace_to_advise|broken_invariant|"
                   r"mpi_is_one|on\(const (WorkerAborted|ExchangeBroken|RanksAbsent|WorkerInspected)")
NOTHING = re.compile(r"^\s*(//|#|$|\}|namespace|using|constexpr std::array|static_assert|TRAINRUN_)|"
                     r"\btell\(|notice::|\bignore\(|cause::|fmt::|verdict_\.(took|after)|case |\bnote\b")
PHASES = ["gathering", "forming", "running", "draining", "cooling", "closing", "done"]
STATES = {"Phase": PHASES, "HostState": ["gone", "dialling", "ready", "stopping"],
          "WorkerState": ["ordered", "spawned", "exited", "finished"], "Then": ["end", "restart"]}
COMPARISONS = {"==": "!=", "!=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">", "&&": "||", "||": "&&"}
STATEMENT = re.compile(r"^\s+[\w:.>()\-]+.*;(\s*//.*)?$")


class Mutant:
    def __init__(self, file, line, kind, before, after, count=1):
        self.file, self.line, self.kind, self.before, self.after, self.count = file, line, kind, before, after, count

    def __str__(self):
        return f"{self.file}:{self.line} ({self.kind}): {' / '.join(self.before.split(chr(10))).strip()}" \
               f"  ->  {' / '.join(part.strip() for part in self.after.split(chr(10))).strip() or '(nothing)'}"

    def key(self):
        return self.file, " ".join(self.before.split()), " ".join(self.after.split())


def of_line(text, code):
    """Pairs of a kind and the line with one thing wrong; `code` is how much of it is no comment."""
    if re.match(r"\s*for \([^:]*;", text):
        return  # it does not end, or takes what is not there: anybody would notice
    for found in re.finditer(r" (==|!=|<=|>=|<|>|&&|\|\|) ", text[:code]):
        yield "comparison", text[:found.start(1)] + COMPARISONS[found[1]] + text[found.end(1):]
    for found in re.finditer(r"(?<=[( ])!(?=[a-z])", text[:code]):
        yield "comparison", text[:found.start()] + text[found.end():]
    for found in re.finditer(r"\b(Phase|HostState|WorkerState|Then)::(\w+)", text[:code]):
        others = [state for state in STATES[found[1]] if state != found[2]]
        for state in others if found[2] in STATES[found[1]] else []:
            yield "phase", text[:found.start(2)] + state + text[found.end(2):]
    if re.match(r"\s*(if \([^;]*\) )?(dis)?arm\([^;]*\);$", text[:code].rstrip()):
        yield "disarm", ""
    for found in re.finditer(r"\b(true|false)\b", text[:code]):
        yield "constant", text[:found.start()] + ("false" if found[1] == "true" else "true") + text[found.end():]
    for found in re.finditer(r"(?<![\w.\[])(\d+)(?![\w.\]])", text[:code]):
        yield "constant", text[:found.start()] + str(2 * int(found[1]) + 1) + text[found.end():]


INTO = re.compile(r"\s*([\w.]*?(\w+))\.(?:push_back|emplace_back|insert|emplace)\(([^()]*)\);")
COUNT = re.compile(r"\s*add\(counts\.(\w+),")


def only_puts_into_a_local(one, other):
    """What is put in is no state of ours; the other statement neither sees where nor takes it away."""
    found = INTO.match(one)
    root = found and found[1].split(".")[0]
    return found and not root.endswith("_") and not re.search(r"_\b", found[3]) and not re.search(rf"\b{root}\b|\.erase\(", other)


def may_depend(one, other):
    """Two statements of which one uses what the other one sets; a call of ours may do either."""
    if only_puts_into_a_local(one, other) or only_puts_into_a_local(other, one) or (COUNT.match(one) and COUNT.match(other)):
        return False
    sets = [re.match(r"\s*((?:[\w.>()\-]|\[\w+\])+) (?:=|\+=|-=) ", it) for it in (one, other)]
    if one.strip() == other.strip() or any(re.match(r"\s*(dis)?arm\(", it) for it in (one, other)):
        return False
    if not any(sets):
        return True
    return any(a and re.search(rf"\b{re.escape(re.findall(r'[A-Za-z_]+', a[1])[-1])}\b", b)
               for a, b in ((sets[0], other), (sets[1], one)))


def of_file(source_dir, file):
    with open(os.path.join(source_dir, CORE, file), encoding="utf-8") as source:
        lines = source.read().split("\n")
    shows = False
    for i, text in enumerate(lines):
        if re.match(r"[A-Za-z\[].*\(", text):
            shows = SHOWS.search(text) is not None
        if shows or not text.startswith(" ") or NOTHING.search(text):
            if not re.match(r"constexpr \w", text):
                continue
        code = text.index("//") if "//" in text else len(text)
        for kind, after in of_line(text, code):
            yield Mutant(file, i + 1, kind, text, after)
        below = lines[i + 1] if i + 1 < len(lines) else ""
        indents = [len(it) - len(it.lstrip()) for it in (text, below)]
        moves = [STATEMENT.match(it) and not re.search(r"^\s*(return|break|continue|const|auto|if|for|else|int|bool|[A-Z]\w+ \w|std::\w+<)|\.reset\(\);", it)
                 for it in (text, below)]
        if all(moves) and indents[0] == indents[1] and not NOTHING.search(below) and may_depend(text, below):
            yield Mutant(file, i + 1, "order", text + "\n" + below, below + "\n" + text, 2)


def candidates(source_dir):
    found = [mutant for file in FILES if os.path.exists(os.path.join(source_dir, CORE, file))
             for mutant in of_file(source_dir, file)]
    return [mutant for mutant in found if mutant.key() not in EQUIVALENT]


def drawn(source_dir, seed):
    """All of them in an order of their own: the kinds take turns, and a line comes once before any comes twice. Each
    has its place by what it is, so that a change of one line does not draw others for all."""
    kinds = {}
    for mutant in candidates(source_dir):
        kinds.setdefault(mutant.kind, []).append(mutant)
    kinds = dict(sorted(kinds.items()))
    for some in kinds.values():
        some.sort(key=lambda mutant: (hashlib.sha256(repr((seed, mutant.key())).encode()).digest(), mutant.line))
    order, seen, later = [], set(), []
    while any(kinds.values()):
        for some in kinds.values():
            if some:
                mutant = some.pop()
                (later if (mutant.file, mutant.line) in seen else order).append(mutant)
                seen.add((mutant.file, mutant.line))
    return order + later


class Program:
    """A program of the build, and how it is compiled and linked with one object more before all others."""

    def __init__(self, build_dir, name, objects):
        self.build_dir = build_dir
        lines = self.commands(name)
        self.link = lines[-1].removeprefix(": && ").removesuffix(" && :")
        self.path = f"bin/{name}"
        self.compile = {}
        for line in lines:
            found = re.search(rf" -o (\S*{objects}\.dir/\S*?{CORE}/|\S*{CORE}/CMakeFiles/{objects}\.dir/)(\w+\.cc)\.o ", line)
            if found:
                self.compile[found[2]] = line

    def commands(self, name):
        return subprocess.run(["ninja", "-C", self.build_dir, "-t", "commands", f"bin/{name}"], check=True,
                              stdout=subprocess.PIPE, text=True).stdout.strip().split("\n")

    def build(self, file, mutated, into):
        """The path of the program, or None when it does not compile."""
        words = shlex.split(self.compile[file])
        for option, path in (("-MF", into + ".d"), ("-o", into + ".o")):
            words[words.index(option) + 1] = path
        words = [mutated if word.endswith(f"/{CORE}/{file}") else word for word in words]
        if subprocess.run([*words, "-w"], cwd=self.build_dir, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
            return None
        words = shlex.split(self.link)
        words[words.index("-o") + 1] = into
        words.insert(next(i for i, word in enumerate(words) if word.endswith(".o")), into + ".o")
        subprocess.run(words, cwd=self.build_dir, check=True, stdout=subprocess.PIPE)
        return into


def run(command, seconds):
    """What made it fail, in a few words; None when nothing did."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                              timeout=seconds)
    except subprocess.TimeoutExpired:
        return f"no end in {seconds} s"
    if done.returncode == 0:
        return None
    why = re.search(r"^schedule (\d+) of seed \d+ fails: (.*)", done.stdout, re.M)
    if why:
        return f"schedule {why[1]}: {why[2]}"
    case = re.search(r"^TEST CASE:\s*(.*)", done.stdout, re.M)
    return case[1] if case else f"exit status {done.returncode}"


class Trial:
    def __init__(self, options):
        self.options = options
        self.sim = Program(options.build_dir, "sim", "sim_brain")
        self.units = Program(options.build_dir, "unit_core_brain", "trainrun_core")
        self.end = time.monotonic() + options.limit
        self.lock = threading.Lock()
        self.tried, self.by_sim, self.by_units = 0, 0, 0

    def wanted(self):
        return self.tried < self.options.count and time.monotonic() < self.end

    def one(self, number, mutant, folder):
        with self.lock:
            if not self.wanted():
                return
            self.tried += 1
        into = os.path.join(folder, str(number))
        os.mkdir(into)
        mutated = os.path.join(into, mutant.file)
        with open(os.path.join(self.options.source_dir, CORE, mutant.file), encoding="utf-8") as source:
            lines = source.read().split("\n")
        lines[mutant.line - 1:mutant.line - 1 + mutant.count] = mutant.after.split("\n")
        with open(mutated, "w", encoding="utf-8") as target:
            target.write("\n".join(lines))
        sim = self.sim.build(mutant.file, mutated, os.path.join(into, "sim"))
        if sim is None:  # it does not compile: another one
            with self.lock:
                self.tried -= 1
            return
        alone = run([sim, "--schedules", str(self.options.schedules), "--no-shrink"], 60)
        units = None
        if alone is None or not self.options.together:
            units = run([self.units.build(mutant.file, mutated, os.path.join(into, "units")), "--abort-after=1"], 60)
        for name in os.listdir(into):
            os.remove(os.path.join(into, name))
        with self.lock:
            self.by_sim += alone is not None
            self.by_units += alone is None and units is not None
            print(f"{'caught' if alone or units else 'NOT CAUGHT'}  {mutant}")
            for who, what in (("simulation", alone), ("unit tests", units)):
                if what:
                    print(f"    {who}: {what[:150]}")
            sys.stdout.flush()

    def run(self):
        with tempfile.TemporaryDirectory() as folder, \
                concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            order = drawn(self.options.source_dir, self.options.seed)
            list(pool.map(lambda it: self.one(*it, folder) if self.wanted() else None, enumerate(order)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build_dir", type=os.path.abspath)
    parser.add_argument("--source-dir", type=os.path.abspath, default=os.path.abspath(os.path.join(__file__, "../../..")))
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seed", type=int, default=int(datetime.date.today().strftime("%Y%m")))
    parser.add_argument("--schedules", type=int, default=40000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=int, default=24 * 3600)
    parser.add_argument("--together", type=int, default=0)
    parser.add_argument("--alone", type=int, default=0)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    if options.list:
        print("\n".join(str(mutant) for mutant in candidates(options.source_dir)))
        print("\nequivalent, and so not drawn:")
        for (file, before, after), why in EQUIVALENT.items():
            print(f"{file}: {before}  ->  {after or '(nothing)'}\n    {why}")
        return 0
    trial = Trial(options)
    trial.run()
    together = trial.by_sim + trial.by_units
    print(f"{trial.tried} mutants of seed {options.seed}: {together} caught by unit tests and simulation together, "
          f"{trial.by_sim} by the simulation alone; {len(EQUIVALENT)} are listed as equivalent")
    if trial.tried == 0:
        return 1
    share = trial.tried / options.count
    return 0 if together >= int(options.together * share) and trial.by_sim >= int(options.alone * share) else 1


if __name__ == "__main__":
    sys.exit(main())
