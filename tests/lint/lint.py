"""Applies tests/lint/rules.py to the files that git knows (and to new ones it does not ignore). Standard library only.

    lint.py              checks the tree; prints FILE:LINE: rule: why; exit 1 if there was any
    lint.py --self-test  checks that every rule reports its bad line and passes its good one
"""
import fnmatch
import os
import re
import subprocess
import sys

import negatives
from rules import FORBIDDEN_TEXT, MAX_LINES, RULES, TEXT_FILES

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CPP = ("h", "cc", "hpp", "c", "cu")
STRING = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'')


def files():
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                            stdout=subprocess.PIPE, check=True).stdout
    for name in sorted(set(os.fsdecode(listed).split("\0"))):
        if name and os.path.isfile(os.path.join(ROOT, name)):
            yield name


def ending(name):
    return name.rsplit(".", 1)[-1] if "." in os.path.basename(name) else ""


def matches(name, patterns):
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def code_lines(text, language):
    """The lines with comments blanked and string contents emptied; include lines are kept whole."""
    in_block = False
    for line in text.split("\n"):
        if language in CPP:
            if in_block:
                end = line.find("*/")
                if end < 0:
                    yield ""
                    continue
                line, in_block = line[end + 2:], False
            if re.match(r"\s*#\s*include", line):
                yield line
                continue
            line = STRING.sub('""', line)
            line = re.sub(r"/\*.*?\*/", " ", line)
            if "/*" in line:
                line, in_block = line[:line.index("/*")], True
            yield line.split("//", 1)[0]
        else:
            yield STRING.sub('""', line).split("#", 1)[0]


def check(name, text):
    """(line number, rule, why) for every breach in one file."""
    found = []
    language = ending(name)
    lines = text.split("\n")
    if language in CPP or language == "py":
        count = len(lines) - (lines[-1] == "")
        if count > MAX_LINES:
            found.append((count, "file-length", f"{count} lines: a file that long holds more than one idea"))
        rules = [rule for rule in RULES if language in rule.languages and matches(name, rule.where)
                 and not matches(name, rule.allowed)]
        for number, line in enumerate(code_lines(text, language), 1):
            found += [(number, rule.name, rule.why) for rule in rules if re.search(rule.pattern, line)]
        if language in ("h", "hpp") and "#pragma once" not in lines and name.startswith(("cli", "launcher", "host-", "rend")):
            found.append((1, "pragma-once", "a header begins with #pragma once"))
    if language in TEXT_FILES:
        for number, line in enumerate(lines, 1):
            found += [(number, "text", why) for pattern, why in FORBIDDEN_TEXT if re.search(pattern, line)]
        if text and not text.endswith("\n"):
            found.append((len(lines), "text", "the last line has no end"))
    return found


def self_test():
    failures = []

    def expect(name, text, rule, reported):
        if any(found[1] == rule for found in check(name, text)) != reported:
            failures.append(f"{rule}: {'did not report' if reported else 'reported'} {text.strip()!r} in {name}")

    for rule in RULES:
        name = rule.where[0].replace("*", "x." + ("h" if rule.name == "pragma-once" else "cc"))
        head = "#pragma once\n" if name.endswith(".h") else ""
        expect(name, head + rule.bad + "\n", rule.name, True)
        expect(name, head + rule.good + "\n", rule.name, False)
        if not rule.bad.startswith("#"):
            expect(name, head + "// " + rule.bad + "\n", rule.name, False)
            expect(name, head + 'f("' + rule.bad.replace('"', "") + '");\n', rule.name, False)
        for allowed in rule.allowed:
            place = allowed.replace("*", "x")
            expect(place if ending(place) in CPP else place + ".cc", rule.bad + "\n", rule.name, False)
    expect("cli/x.cc", "int a;\n" * (MAX_LINES + 1), "file-length", True)
    expect("cli/x.cc", "int a;\n" * MAX_LINES, "file-length", False)
    expect("cli/x.h", "int a;\n", "pragma-once", True)
    for bad in ("// TO" + "DO: later\n", "int a; \n", "<<<<<<< HEAD\n", "int a;"):
        expect("cli/x.cc", bad, "text", True)
    expect("cli/x.cc", "// to do a thing\n", "text", False)
    failures += negatives.self_test()
    for failure in failures:
        print(f"lint self-test: {failure}")
    return 1 if failures else 0


def read(name):
    with open(os.path.join(ROOT, name), errors="replace") as file:
        return file.read()


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    count = 0
    for name in files():
        if ending(name) not in TEXT_FILES:
            continue
        for line, rule, why in check(name, read(name)):
            print(f"{name}:{line}: {rule}: {why}")
            count += 1
    speakers = ("cli/*", "comm/*", "host-discovery/*", "launcher/*", "rendezvous/*", "tests/workers/*")
    said = negatives.said_by(read(name) for name in files() if ending(name) in CPP and matches(name, speakers))
    for name in files():
        if not matches(name, ("tests/e2e/*.py",)):
            continue
        for line, words in negatives.stale(name, read(name), said):
            print(f"{name}:{line}: negative: nothing says {words!r}, so that this cannot fail")
            count += 1
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
