#!/usr/bin/python3
"""man/*.1 and *.5 against the program: every flag, TOML key, exit code and state is described, and nothing else is. And what else
stands in two files.

usage: man_sync.py TRAINRUN SOURCE_DIRECTORY
"""
import ast
import pathlib
import re
import subprocess
import sys


def table(trainrun):
    text = subprocess.run([trainrun, "--print-options"], check=True, capture_output=True, text=True, timeout=60).stdout
    spellings, keys = set(), set()
    for line in text.splitlines():
        name, aliases, _environment, toml, _default = line.split("\t")
        spellings.update([name, *aliases.split()])
        if toml:
            keys.add(toml)
    return spellings, keys


def flags_of(page):
    """The flags of all .It Fl lines: `Fl np` is -np, `Fl -np` is --np."""
    found = set()
    for line in page.splitlines():
        if line.startswith(".It Fl "):
            found.update("-" + name for name in re.findall(r"\bFl (-?[A-Za-z][\w-]*)", line))
    return found


def keys_of(page):
    """The keys under .Ss Configuration files: `.It Sy [limits]` begins a table, `.Cm grace` is a key of it."""
    section = page.split(".Ss Configuration files", 1)[1].split(".Sh ", 1)[0]
    found, where = set(), None
    for line in section.splitlines():
        head = re.match(r"\.It Sy (?:\[+(\w+)\]+|Top level)", line)
        if head:
            where = head.group(1) or ""
        key = re.match(r"\.Cm (\w+)", line)
        if key and where is not None and where not in ("env", "program"):
            found.add(f"{where}.{key.group(1)}".lstrip("."))
    return found - {"command"}


def codes_of_page(page):
    section = page.split(".Sh EXIT STATUS", 1)[1].split(".Sh ", 1)[0]
    return {int(code) for code in re.findall(r"^\.It (\d+)$", section, re.M)}


def codes_of_readme(readme):
    rows = re.findall(r"^\| ([\d, ]+) \|", readme.split("## Exit codes", 1)[1].split("\n## ", 1)[0], re.M)
    return {int(code) for row in rows for code in row.split(", ")}


def codes_of_header(header):
    body = header.split("enum class ExitCode", 1)[1].split("};", 1)[0]
    return {int(code) for code in re.findall(r"= (\d+),", body)}


def differences(what, page, program):
    for name in sorted(program - page):
        yield f"{what} {name}: not in the man page"
    for name in sorted(page - program):
        yield f"{what} {name}: in the man page, but not in the program"


def ctl_of_page(page):
    """Commands and flags of trainrun-ctl or another subcommand: .It Cm remove, .It Fl -job."""
    flags = {name for line in page.splitlines() if line.startswith(".It Fl ") for name in re.findall(r"\bFl (-[a-z]+)", line)}
    return set(re.findall(r"^\.It Cm (\w+)", page, re.M)) | {"-" + name for name in flags}


def ctl_of_program(trainrun, subcommand):
    """The words that begin a line of `trainrun ctl --help`, indented by two."""
    text = subprocess.run([trainrun, subcommand, "--help"], check=True, capture_output=True, text=True, timeout=60).stdout
    return set(re.findall(r"^  ([^\s,]+)", text, re.M))


def said_by(source, name):
    """The words that a function of the brain returns: the body of `std::string NAME(... of) {`, up to its end."""
    for path in sorted((source / "launcher/core").glob("*.cc")):
        body = path.read_text().split("std::string " + name, 1)
        if len(body) == 2:
            return set(re.findall(r'return "(\w+)";', body[1].split("\n}\n", 1)[0]))
    raise SystemExit(f"man_sync: no function {name} in launcher/core")


def words_of_world(source):
    """What `trainrun ctl world` can say: of the phase, a rank's state, a host's state."""
    states, of_worker = said_by(source, "to_string(WorkerState"), said_by(source, "state_of(const WorkerView&")
    return {"phase": said_by(source, "to_string(JobPhase"),
            "rank": states | of_worker - {"ready"},
            "newcomer": states - {"running", "ended"} | of_worker - {"waiting"},
            "host": said_by(source, "to_string(JobMachine::HostState") | said_by(source, "state_of(const JobMachine::HostView&")}


def words_of_page(page):
    lists = re.findall(r"^\.Cm ((?:\w+ , )+\w+) \.$", page.split(".Ss Phases and states", 1)[1], re.M)
    return dict(zip(("phase", "rank", "newcomer", "host"), (set(words.split(" , ")) for words in lists)))


def words_of_view(header):
    found = re.findall(r"^//   (phase|state of rank|state of newcomer|state of host) +(.*)$", header, re.M)
    return {key.split()[-1]: set(words.split(", ")) for key, words in found}


def records(header):
    """Of notice.h or cause.h: each record with its fields, as a line of --events has them."""
    rank = {"rank", "host", "host_index", "worker", "pid"}
    of_others = {"host.fields": {"host", "host_index"}, "who.fields": rank, "finished.fields": rank,
                 "what.fields": {"part", "program", "host", "host_index", "family", "guessed"},
                 "odd.fields": {"rank", "does", "others_do", "silent", "others"}}
    for name, body in re.findall(r'TRAINRUN_RECORD\("([^"]+)"\) \{(.*?)\}', header, re.S):
        fields = set(re.findall(r'v\("(\w+)"', body))
        for call, theirs in of_others.items():
            fields |= theirs if call in body else set()
        yield name.replace(" ", "_").replace("-", "_"), fields


def events_of_brain(source):
    """"notice restarting", "notice restarting cause", ...; and the same of causes."""
    for kind in ("notice", "cause"):
        for name, fields in records((source / f"launcher/core/{kind}.h").read_text()):
            yield from (f"{kind} {name} {field}".rstrip() for field in {"", *fields})


def events_of_page(page):
    """`.It Cm restarting` and the fields on the .Cm lines below it, up to a colon or .br."""
    head, tail = page.split(".Sh EVENTS", 1)
    parts = {"cause": head.split("and these fields:", 1)[1], "notice": tail.split(".Ss Generations", 1)[1]}
    for kind, part in parts.items():
        for name, body in re.findall(r"^\.It Cm (\w+)\n(.*?)(?=^\.It|^\.El)", part, re.S | re.M):
            yield f"{kind} {name}"
            for line in re.split(r"^\.br\n", body, flags=re.M)[0].splitlines():
                if line.startswith(".Cm "):
                    fields = re.findall(r"\w+", line.removeprefix(".Cm ").split(" :")[0])
                    yield from (f"{kind} {name} {field}" for field in fields)


def mpi_of_page(page):
    """The options of other launchers: `.It Fl -mca Ar NAME VALUE` of trainrun-mpi, in the spelling of the program."""
    return {"-" + name for line in page.splitlines() if line.startswith(".It Fl ")
            for name in re.findall(r"\bFl (-?[A-Za-z][\w-]*)", line)}


def mpi_of_program(trainrun):
    """`mpirun --help` lists them by what becomes of them."""
    text = subprocess.run([trainrun, "--compat-cli", "openmpi", "--help"], check=True, capture_output=True, text=True,
                          timeout=60).stdout
    lists = text.split("These work:", 1)[1].split("\nWhat Open MPI", 1)[0]
    return set(re.findall(r"(?<=\s)--?[A-Za-z][\w-]*", lists))


def variables_of_seats(source):
    """What worker_env.cc makes of a rank's own seat."""
    text = (source / "launcher/core/worker_env.cc").read_text()
    return {name for line in re.findall(r'^  env\["[^;]*\bseat\.[^;]*;', text, re.M) for name in re.findall(r'env\["(\w+)"\]', line)}


def unknown_to_zygote(source):
    """What reads one of these while it is imported must not be taken for a rank."""
    tables = {}
    for node in ast.parse((source / "launcher/agent/zygote.py").read_text()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) in ("RANK_VARIABLES", "RANK_PREFIXES"):
            tables[node.targets[0].id] = ast.literal_eval(node.value)
    return {name for name in variables_of_seats(source)
            if name not in tables["RANK_VARIABLES"] and not name.startswith(tables["RANK_PREFIXES"])}


def main():
    trainrun, source = sys.argv[1], pathlib.Path(sys.argv[2])
    page = (source / "man/trainrun.1").read_text()
    hosts = (source / "man/trainrun-hosts.5").read_text()
    ctl = (source / "man/trainrun-ctl.1").read_text()
    mpi = (source / "man/trainrun-mpi.7").read_text()
    header = (source / "launcher/base/exit_code.h").read_text()
    spellings, keys = table(trainrun)
    wrong = [
        *differences("flag", flags_of(page), spellings),
        *differences("key", keys_of(hosts), keys),
        *differences("trainrun ctl:", ctl_of_page(ctl), ctl_of_program(trainrun, "ctl")),
        *differences("trainrun replay:", ctl_of_page((source / "man/trainrun-replay.1").read_text()),
                     ctl_of_program(trainrun, "replay")),
        *differences("option of mpirun", mpi_of_page(mpi), mpi_of_program(trainrun)),
        *differences("exit code", codes_of_page(page), codes_of_header(header)),
        *differences("exit code of README:", codes_of_readme((source / "README.md").read_text()),
                     codes_of_header(header)),
    ]
    wrong += [f"{name} is of a rank alone (launcher/core/worker_env.cc), and launcher/agent/zygote.py does not know it"
              for name in sorted(unknown_to_zygote(source))]
    schema = re.search(r"schema = (\d+)", (source / "launcher/core/journal.h").read_text()).group(1)
    if f"This page is about schema {schema}." not in (source / "man/trainrun-replay.1").read_text():
        wrong.append(f"man/trainrun-replay.1 is not about schema {schema} of launcher/core/journal.h")
    events = (source / "man/trainrun-events.7").read_text()
    wrong += differences("event", set(events_of_page(events)), set(events_of_brain(source)))
    told, view = words_of_page(ctl), words_of_view((source / "launcher/control/world_view.h").read_text())
    for key, words in words_of_world(source).items():
        wrong += differences(f"trainrun ctl world: {key}", told.get(key, set()), words)
        wrong += [line.replace("the man page", "world_view.h")
                  for line in differences(f"trainrun ctl world: {key}", view.get(key, set()), words)]
    for path in ("man/trainrun.1", "man/trainrun-ctl.1", "man/trainrun-hosts.5", "man/trainrun-elastic.7",
                 "man/trainrun-events.7", "man/trainrun-mpi.7", "man/trainrun-pytorch.7",
                 "man/trainrun-replay.1", "man/trainrun-horovod.7", "man/trainrun-comm.7"):
        lint = subprocess.run(["mandoc", "-T", "lint", source / path], capture_output=True, text=True, timeout=60)
        # pages that are not installed here are no fault of ours
        noise = ("outdated mandoc.db", "referenced manual not found")
        wrong += [line for line in (lint.stdout + lint.stderr).splitlines() if not any(n in line for n in noise)]
    print("\n".join(wrong) if wrong else "man pages and program agree")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
