"""Virtual environments with packages of today from PyPI, made once for a user of this machine and kept.

They lie in /var/tmp, which the hosts of a lab see, one for each list of packages. To have newer releases, remove them.
"""
import fcntl
import hashlib
import os
import shutil
import subprocess
import unittest

PATIENCE = 7200  # seconds: for what takes minutes on a machine that has nothing else to do
CACHE = f"/var/tmp/trainrun-interop-{os.getuid()}"

# The last release of Horovod, and the last torch that its C++14 can be built against. What builds it must be older
# than the pkg_resources that it asks for.
HOROVOD = "horovod==0.28.1"
BESIDE_HOROVOD = ("setuptools<66", "wheel", "torch==2.0.1", "numpy<2", "cffi", "pyyaml", "psutil", "cloudpickle", "packaging")
HOROVOD_BUILD = {
    "HOROVOD_WITH_GLOO": "1", "HOROVOD_WITHOUT_MPI": "1", "HOROVOD_WITH_PYTORCH": "1", "HOROVOD_WITHOUT_TENSORFLOW": "1",
    "HOROVOD_WITHOUT_MXNET": "1", "HOROVOD_CPU_OPERATIONS": "GLOO", "CXXFLAGS": "-include cstdint",
    "MAKEFLAGS": os.environ.get("TRAINRUN_HOROVOD_MAKEFLAGS", "-j2")}
# torch's wheel is one for CUDA, and where anything of a toolkit is in sight Horovod's build wants all of it.
WITHOUT_CUDA = """mount -t tmpfs none /usr/local && unset CUDA_HOME CUDA_PATH LIBRARY_PATH && PATH=/usr/bin:/bin exec "$@" """


def horovod_python():
    """The interpreter of an environment with a Horovod on Gloo, built from its source: about five minutes of CPU."""
    return python_with("horovod", *BESIDE_HOROVOD, build=HOROVOD)


def python_with(name, *packages, build=None):
    """The interpreter of an environment with these packages. Without PyPI or venv the test is skipped."""
    os.makedirs(CACHE, mode=0o700, exist_ok=True)
    if os.stat(CACHE).st_uid != os.getuid():
        raise unittest.SkipTest(f"{CACHE} is somebody else's")
    words = hashlib.sha256(" ".join([*packages, *([build] if build else [])]).encode()).hexdigest()[:12]
    folder = f"{CACHE}/{name}-{words}"
    with open(folder + ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(folder + "/complete"):
            shutil.rmtree(folder, ignore_errors=True)
            make(folder, packages, build)
    return folder + "/bin/python"


def make(folder, packages, build):
    pip = [folder + "/bin/pip", "install", "-q", "--disable-pip-version-check"]
    commands = [["/usr/bin/python3", "-m", "venv", folder], [*pip, *packages]]
    if build:
        commands.append(["unshare", "-m", "sh", "-c", WITHOUT_CUDA, "sh", *pip, "--no-build-isolation", "--no-deps", build])
    for command in commands:
        try:
            done = subprocess.run(command, env={**os.environ, **HOROVOD_BUILD} if build else None, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise unittest.SkipTest(f"{' '.join(command)}: not done after {PATIENCE} s") from None
        if done.returncode != 0:
            raise unittest.SkipTest(f"{' '.join(command)}: {done.stdout.strip()[-300:]}")
    frozen = subprocess.run([folder + "/bin/pip", "freeze"], capture_output=True, text=True, check=True, timeout=60).stdout
    with open(folder + "/complete", "w", encoding="ascii") as file:
        file.write(frozen)


def versions(python, *packages):
    """What is installed there: "torch==2.15.0"."""
    with open(os.path.dirname(os.path.dirname(python)) + "/complete", encoding="ascii") as file:
        return [line.strip() for line in file if line.split("==")[0].strip() in packages]
