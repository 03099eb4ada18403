"""Runs `sim` over a range of schedules, one process a core.

    many.py SIM SCHEDULES [SEED]       the seed is 1 unless given; a nightly run gives another one each night
"""
import os
import subprocess
import sys
import time


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    sim, count = sys.argv[1], int(sys.argv[2])
    seed = sys.argv[3] if len(sys.argv) == 4 else "1"
    parts = max(1, len(os.sched_getaffinity(0)))
    began = time.monotonic()
    runs = []
    for part in range(parts):
        first, end = count * part // parts, count * (part + 1) // parts
        runs.append(subprocess.Popen([sim, "--seed", seed, "--start", str(first), "--schedules", str(end - first)],
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    failed = False
    for run in runs:
        print(run.communicate()[0].rstrip())
        failed |= run.returncode != 0
    print(f"{count} schedules of seed {seed} in {time.monotonic() - began:.1f} s on {parts} cores:",
          "FAILED" if failed else "passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
