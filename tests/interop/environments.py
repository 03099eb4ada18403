"""Virtual environments with packages of today from PyPI, made once for a user of this machine and kept.

They lie in /var/tmp, which the hosts of a lab see, one for each list of packages. To have newer releases, remove them.
"""
import fcntl
import hashlib
import os
import shutil
import subprocess
import unittest

CACHE = f"/var/tmp/trainrun-interop-{os.getuid()}"


def python_with(name, *packages):
    """The interpreter of an environment with these packages. Without PyPI or venv the test is skipped."""
    os.makedirs(CACHE, mode=0o700, exist_ok=True)
    if os.stat(CACHE).st_uid != os.getuid():
        raise unittest.SkipTest(f"{CACHE} is somebody else's")
    words = hashlib.sha256(" ".join(packages).encode()).hexdigest()[:12]
    folder = f"{CACHE}/{name}-{words}"
    with open(folder + ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(folder + "/complete"):
            shutil.rmtree(folder, ignore_errors=True)
            make(folder, packages)
    return folder + "/bin/python"


def make(folder, packages):
    for command in (["/usr/bin/python3", "-m", "venv", folder],
                    [folder + "/bin/pip", "install", "-q", "--disable-pip-version-check", *packages]):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", timeout=1800)
        if done.returncode != 0:
            raise unittest.SkipTest(f"{' '.join(command)}: {done.stdout.strip()[-300:]}")
    frozen = subprocess.run([folder + "/bin/pip", "freeze"], capture_output=True, text=True, check=True, timeout=60).stdout
    with open(folder + "/complete", "w", encoding="ascii") as file:
        file.write(frozen)


def versions(python, *packages):
    """What is installed there: "torch==2.15.0"."""
    with open(os.path.dirname(os.path.dirname(python)) + "/complete", encoding="ascii") as file:
        return [line.strip() for line in file if line.split("==")[0].strip() in packages]
