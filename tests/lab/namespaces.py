"""System calls that Python 3.11 lacks: unshare, setns, mount, prctl; and starting a process in another host's
namespaces. Linux, x86-64 and arm64; needs root."""
import ctypes
import os
import signal
import subprocess

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWPID, CLONE_NEWNET = 0x20000000, 0x40000000
MS_BIND, MS_REC, MS_PRIVATE, MS_NOSUID, MS_NODEV = 4096, 16384, 1 << 18, 2, 4
PR_SET_PDEATHSIG = 1
KINDS = {"net": CLONE_NEWNET, "uts": CLONE_NEWUTS, "ipc": CLONE_NEWIPC, "mnt": CLONE_NEWNS}

_libc = ctypes.CDLL(None, use_errno=True)


def _check(rc, what):
    if rc != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")


def unshare(flags):
    _check(_libc.unshare(flags), "unshare")


def setns(fd, kind):
    _check(_libc.setns(fd, kind), "setns")


def mount(source, target, kind=None, flags=0, data=None):
    def text(value):
        return None if value is None else os.fsencode(value)
    _check(_libc.mount(text(source), text(target), text(kind), ctypes.c_ulong(flags), text(data)),
           f"mount {source} on {target}")


def die_with_parent():
    _check(_libc.prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0), "prctl")


class PidNamespace:
    """While entered, the calling thread's new children are born in the pid namespace of process `pid`, or in a fresh
    one without it. No thread may be started meanwhile (the kernel refuses)."""

    def __init__(self, pid=None):
        self._pid = pid

    def __enter__(self):
        self._own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        try:
            if self._pid is None:
                unshare(CLONE_NEWPID)
            else:
                other = os.open(f"/proc/{self._pid}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
                try:
                    setns(other, CLONE_NEWPID)
                finally:
                    os.close(other)
        except BaseException:
            os.close(self._own)
            raise

    def __exit__(self, *_):
        setns(self._own, CLONE_NEWPID)
        os.close(self._own)


def fork(pid=None):
    """os.fork() with the child in the pid namespace of `pid`, or the first process of a fresh one."""
    space = PidNamespace(pid)
    space.__enter__()
    child = os.fork()
    if child != 0:  # the child is there for good
        space.__exit__()
    return child


def _open_all(pid):
    return [(os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC), kind) for name, kind in KINDS.items()]


def popen(pid, argv, cwd="/", **options):
    """subprocess.Popen in all namespaces of process `pid`. The child's pid is the one seen from here, and signals sent
    to it from here arrive as usual."""
    handles = _open_all(pid)

    def enter():
        for fd, kind in handles:
            setns(fd, kind)
        os.chdir(cwd)

    try:
        with PidNamespace(pid):
            return subprocess.Popen(argv, preexec_fn=enter, **options)
    finally:
        for fd, _ in handles:
            os.close(fd)


def call(pid, function):
    """Runs function() in a forked child inside the namespaces of `pid`; raises if it raised."""
    handles = _open_all(pid)
    reader, writer = os.pipe()
    child = fork(pid)
    if child == 0:
        try:
            for fd, kind in handles:
                setns(fd, kind)
            function()
            os._exit(0)
        except BaseException as error:
            os.write(writer, repr(error).encode())
        finally:
            os._exit(1)
    os.close(writer)
    for fd, _ in handles:
        os.close(fd)
    with os.fdopen(reader, "rb") as pipe:
        text = pipe.read().decode(errors="replace")
    if os.waitpid(child, 0)[1] != 0:
        raise RuntimeError(text or f"a helper in the namespaces of {pid} failed")


def start_time(pid):
    """Clock ticks since boot at which `pid` started, or None: with it a pid names one process for ever."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rsplit(b") ", 1)[1].split()[19])
    except OSError:
        return None
