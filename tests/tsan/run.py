"""Runs a program of the preset tsan; a report of ThreadSanitizer, in it or in any process it started, is a failure.

    run.py [--must-report] PROGRAM [ARGUMENT...]

--must-report: the other way round, to show that races of our own are seen.
"""
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def main(words):
    must_report = words[:1] == ["--must-report"]
    command = words[1:] if must_report else words
    if not os.access(command[0], os.X_OK):
        print(f"SKIP: {command[0]} is not built: cmake --preset tsan && cmake --build --preset tsan -t tsan_programs")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        # In quotes: options end at a space or colon, and a clone may lie in a folder that has one.
        options = f"suppressions='{HERE}/suppressions.txt':log_path='{folder}/report':second_deadlock_stack=1"
        status = subprocess.run(command, env={**os.environ, "TSAN_OPTIONS": options}, check=False).returncode
        reports = []
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name), errors="replace") as file:
                reports.append(file.read())
    races = [text for text in reports if "WARNING: ThreadSanitizer" in text]
    if must_report:
        seen = any("write_often" in text for text in races)
        print("the planted race was reported" if seen else "the planted race was NOT reported")
        return 0 if seen else 1
    for text in races:
        print(text)
    print(f"{len(races)} processes with reports, exit status {status}")
    return 1 if races or status != 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
