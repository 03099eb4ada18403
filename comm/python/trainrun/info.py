"""`python3 -m trainrun.info [--json]`: what trainrun comm-info tells, with the wheels of this interpreter in sight."""
import sys

from trainrun import nccl

if __name__ == "__main__":
    print(nccl.describe_host("--json" in sys.argv[1:]), end="")
