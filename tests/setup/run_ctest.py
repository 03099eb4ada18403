"""Runs ctest on a build folder and shows its output as it comes; before ctest's summary it tells how long tests took,
and counts and names skipped ones with their reasons. With TRAINRUN_REQUIRE=all a skipped test is a failure.

    run_ctest.py BUILD_DIR [--quick | --soak | --interop] [-R REGEX]
    run_ctest.py --self-test

A test skips itself by exit code 77 and says why in lines that begin with "SKIP: ".
"""
import argparse
import os
import re
import subprocess
import sys

SKIPPED = re.compile(r"^\s*\d+/\d+\s+Test\s+#\d+:\s+(\S+)\s.*\*\*\*Skipped")
SUMMARY = re.compile(r"^\d+% tests passed|^No tests were found")
ENDED = re.compile(r"^\s*\d+/\d+\s+Test\s+#\d+:\s+(\S+)\s.*?\s(\d+\.\d+) sec\s*$")
WORTH_A_LINE = 1.0  # seconds


def reasons(build_dir, names):
    """The SKIP: lines of each test, out of the log that ctest leaves."""
    found = {name: [] for name in names}
    current = None
    try:
        with open(os.path.join(build_dir, "Testing/Temporary/LastTest.log"), errors="replace") as log:
            for line in log:
                start = re.match(r"\d+/\d+ Testing: (\S+)", line)
                if start:
                    current = start.group(1)
                elif line.startswith("SKIP: ") and current in found:
                    found[current].append(line[len("SKIP: "):].strip())
    except OSError:
        pass
    return found


def durations(took):
    """Lines about {test: seconds}, the slowest first."""
    slow = sorted(((seconds, name) for name, seconds in took.items() if seconds >= WORTH_A_LINE), reverse=True)
    lines = [f"{seconds:8.1f} s  {name}" for seconds, name in slow]
    fast = [seconds for seconds in took.values() if seconds < WORTH_A_LINE]
    if fast:
        lines.append(f"{sum(fast):8.1f} s  in {len(fast)} more of less than {WORTH_A_LINE:.0f} s each")
    return lines


def self_test():
    lines = ["  1/4 Test  #7: unit.base ........................   Passed    0.25 sec",
             " 2/4 Test #12: e2e.ssh .....***Failed  61.50 sec",
             " 3/4 Test  #3: e2e.slurm_lab ...***Skipped   0.31 sec",
             "4/4 Test #100: sim.many ..........................***Timeout 600.02 sec",
             "      Start  3: e2e.ssh", "100% tests passed, 0 tests failed out of 4", "Total Test time (real) = 662.08 sec"]
    took = {match.group(1): float(match.group(2)) for match in map(ENDED.match, lines) if match}
    assert took == {"unit.base": 0.25, "e2e.ssh": 61.5, "e2e.slurm_lab": 0.31, "sim.many": 600.02}, took
    assert durations(took) == ["   600.0 s  sim.many", "    61.5 s  e2e.ssh", "     0.6 s  in 2 more of less than 1 s each"]
    assert durations({}) == [] and durations({"a": 2.0}) == ["     2.0 s  a"]
    assert [bool(SKIPPED.match(line)) for line in lines[:4]] == [False, False, True, False]
    return 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    parser = argparse.ArgumentParser()
    parser.add_argument("build_dir")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--soak", action="store_true")
    parser.add_argument("--interop", action="store_true")
    parser.add_argument("-R", dest="regex")
    args = parser.parse_args()

    command = ["ctest", "--test-dir", args.build_dir, "--output-on-failure", "--no-tests=error",
               "-j", str(min(os.cpu_count() or 1, 4))]
    if args.soak:
        command += ["-C", "soak"]
    if args.interop:
        command += ["-C", "interop", "-L", "interop"]
    if args.quick:
        command += ["-L", "quick"]
    if args.regex:
        command += ["-R", args.regex]
    ctest = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace")
    skipped, summary, took = [], [], {}
    for line in ctest.stdout:
        ended = ENDED.match(line)
        if ended:
            took[ended.group(1)] = float(ended.group(2))
        match = SKIPPED.match(line)
        if match:
            skipped.append(match.group(1))
        if summary or SUMMARY.match(line):
            summary.append(line)
        else:
            sys.stdout.write(line)
            sys.stdout.flush()
    rc = ctest.wait()

    if took:
        print("how long tests took:", *durations(took), sep="\n")
    if skipped:
        why = reasons(args.build_dir, skipped)
        print(f"{len(skipped)} skipped:")
        for name in skipped:
            for reason in why[name] or ["it gave no reason"]:
                print(f"  {name}: {reason}")
        if os.environ.get("TRAINRUN_REQUIRE") == "all":
            print("TRAINRUN_REQUIRE=all: a skipped test is a failure")
            rc = rc or 1
    # Blank lines at the end would make the last line an empty one.
    sys.stdout.write("".join(summary).rstrip("\n") + "\n")
    return rc


if __name__ == "__main__":
    sys.exit(main())
