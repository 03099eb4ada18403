"""Runs ctest on a build folder and shows its output as it comes; before ctest's summary it counts and names skipped
tests with their reasons. With TRAINRUN_REQUIRE=all a skipped test is a failure.

    run_ctest.py BUILD_DIR [--soak | --interop] [-R REGEX]

A test skips itself by exit code 77 and says why in lines that begin with "SKIP: ".
"""
import argparse
import os
import re
import subprocess
import sys

SKIPPED = re.compile(r"^\s*\d+/\d+\s+Test\s+#\d+:\s+(\S+)\s.*\*\*\*Skipped")
SUMMARY = re.compile(r"^\d+% tests passed|^No tests were found")


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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build_dir")
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
    if args.regex:
        command += ["-R", args.regex]
    ctest = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace")
    skipped, summary = [], []
    for line in ctest.stdout:
        match = SKIPPED.match(line)
        if match:
            skipped.append(match.group(1))
        if summary or SUMMARY.match(line):
            summary.append(line)
        else:
            sys.stdout.write(line)
            sys.stdout.flush()
    rc = ctest.wait()

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
