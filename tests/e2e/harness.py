"""What end-to-end tests stand on: a trainrun under test, watched from outside.

    class ExitCodes(LocalTest):
        def test_...(self):
            self.assertEnds(self.run_job("-np", "2", WORKER, "exit", "3"), 3)

TRAINRUN_BIN and TRAINRUN_WORKER name the two programs (CMake sets them). Every wait has a deadline; when it passes, the
job's processes are printed with their stacks and killed, and the test fails. After each test no process of its jobs and
no file in its temporary folder may remain. Standard library only.
"""
import atexit
import glob
import json
import os
import re
import selectors
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests/lab"))

from journals import Journals  # noqa: E402
from processes import MARK, describe, kill, marked  # noqa: E402,F401


def without_blanks(path):
    """`path`, or a link to it: tests put these names into shell lines, and a clone may lie in a folder with blanks."""
    if shlex.quote(path) == path:
        return path
    folder = tempfile.mkdtemp(prefix="trainrun-test-link-", dir="/var/tmp")
    os.chmod(folder, 0o755)  # some tests start programs as another user
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    link = os.path.join(folder, os.path.basename(path))
    os.symlink(path, link)
    return link


BUILD = os.path.join(ROOT, "build/dev/bin")
TRAINRUN = without_blanks(os.environ.get("TRAINRUN_BIN", BUILD + "/trainrun"))
WORKER = without_blanks(os.environ.get("TRAINRUN_WORKER", BUILD + "/worker"))
DEADLINE = float(os.environ.get("TRAINRUN_TEST_DEADLINE", "60"))  # seconds; ten times what anything here should take
SOAK = bool(os.environ.get("TRAINRUN_SOAK"))

# Of the environment that the tests were started in, what a job may see: the rest would make them depend on it.
BASE_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LANG": "C.UTF-8", "TERM": "dumb",
                    "USER": "root", "LOGNAME": "root", "SHELL": "/bin/sh"}
for _name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"):
    if _name in os.environ:
        BASE_ENVIRONMENT[_name] = os.environ[_name]


# Of a job that was ended by one of these its launcher dies by it, and shells report 128 + its number.
ENDS_JOBS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Result:
    """`rc` is the exit code as a shell gives it, `died_by` the signal that killed the launcher, or 0."""

    def __init__(self, rc, out, err, command):
        self.died_by = -rc if rc is not None and -rc in ENDS_JOBS else 0
        rc = 128 + self.died_by if self.died_by else rc
        self.rc, self.raw_out, self.raw_err, self.command = rc, out, err, command
        self.out, self.err = out.decode(errors="replace"), err.decode(errors="replace")

    def __str__(self):
        return (f"{' '.join(self.command)}\n  exit code {self.rc}\n--- stdout\n{self.out[-4000:]}\n"
                f"--- stderr\n{self.err[-4000:]}")


class Job:
    """A running trainrun. Its output is read only in calls of this object, so a test can also let it pile up."""

    def __init__(self, process, command, feed=None, outer_pids=None):
        self.process, self.command = process, command
        self.pid = process.pid
        self.buffers = {"out": bytearray(), "err": bytearray()}
        self._outer_pids = outer_pids or (lambda: [process.pid])
        self._selector = selectors.DefaultSelector()
        for name, pipe in (("out", process.stdout), ("err", process.stderr)):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
                self._selector.register(pipe, selectors.EVENT_READ, name)
        self._feed = memoryview(feed) if feed else None
        if feed is not None:
            os.set_blocking(process.stdin.fileno(), False)
            self._selector.register(process.stdin, selectors.EVENT_WRITE, "in")
        self._handle = os.pidfd_open(process.pid)
        self._selector.register(self._handle, selectors.EVENT_READ, "end")
        self.ended = False

    @property
    def out(self):
        return self.buffers["out"].decode(errors="replace")

    @property
    def err(self):
        return self.buffers["err"].decode(errors="replace")

    def _pump(self, timeout):
        for key, _ in self._selector.select(timeout):
            if key.data == "end":
                self._selector.unregister(key.fileobj)
                self.ended = True
            elif key.data == "in":
                self._write()
            else:
                try:
                    data = os.read(key.fd, 1 << 20)
                except OSError:
                    data = b""  # a pty whose other side is gone
                if data:
                    self.buffers[key.data] += data
                else:
                    self._selector.unregister(key.fileobj)

    def _write(self):
        try:
            self._feed = self._feed[os.write(self.process.stdin.fileno(), self._feed[:65536]):] if self._feed else None
        except BrokenPipeError:
            self._feed = None
        if not self._feed:
            self._selector.unregister(self.process.stdin)
            self.process.stdin.close()

    def wait_until(self, condition, what, timeout=DEADLINE):
        deadline = time.monotonic() + timeout
        while not condition():
            left = deadline - time.monotonic()
            if left <= 0:
                self.hang(f"waited {timeout:.0f} s in vain that {what}")
            self._pump(min(left, 0.2))

    def wait_for(self, pattern, stream="out", count=1, timeout=DEADLINE):
        """Until `pattern` was matched `count` times in what a stream has said so far; gives the matches."""
        expression = re.compile(pattern.encode(), re.MULTILINE)

        def found():
            return len(list(expression.finditer(self.buffers[stream]))) >= count

        self.wait_until(lambda: found() or (self.ended and self.drained()), f"{pattern!r} appears {count} times on std{stream}", timeout)
        if not found():
            raise AssertionError(f"it ended without {count} times {pattern!r} on std{stream}: {self.result_so_far()}")
        return [match.group(0).decode(errors="replace") for match in expression.finditer(self.buffers[stream])]

    def stop_reading(self, *more):
        """From here on stdout is the test's, to let it pile up or to close it, and so are `more`."""
        for stream in (self.process.stdout, *more):
            self._selector.unregister(stream)

    def read_slowly(self, timeout=DEADLINE):
        """After stop_reading(): stdout to its end, 64 KiB at most each 10 ms."""
        os.set_blocking(self.process.stdout.fileno(), True)
        deadline = time.monotonic() + timeout
        while os.read(self.process.stdout.fileno(), 65536):
            if time.monotonic() > deadline:
                self.hang(f"stdout goes on after {timeout:.0f} s")
            self._selector.select(0.01)

    def drained(self):
        """Both pipes were read to their end."""
        return not any(key.data in ("out", "err") for key in self._selector.get_map().values())

    def wait(self, timeout=DEADLINE):
        """Until it ended and both its pipes are read: gives the Result."""
        self.wait_until(lambda: self.ended, "trainrun ends", timeout)
        self.process.wait()
        self.wait_until(self.drained, "its stdout and stderr close (somebody still holds them)", timeout)
        return self.result_so_far()

    def result_so_far(self):
        return Result(self.process.poll(), bytes(self.buffers["out"]), bytes(self.buffers["err"]), self.command)

    def hang(self, what):
        report = describe(self._outer_pids())
        self.kill_all()
        raise AssertionError(f"{what}\n{self.result_so_far()}\n--- processes\n{report}")

    def kill_all(self):
        for pid in self._outer_pids() + [self.process.pid]:
            kill(pid)
        self.process.wait()

    def signal(self, number):
        self.process.send_signal(number)

    def press(self, number, answer):
        """As somebody who presses a key again when there is no answer on stderr, until the job has ended: a signal that
        comes right behind the same one is taken for the same press."""
        def answered():
            return answer in self.err or self.ended

        pressed_at = float("-inf")

        def pressed():
            nonlocal pressed_at
            if not answered() and time.monotonic() - pressed_at > 0.8:
                pressed_at = time.monotonic()
                self.signal(number)
            return answered()

        self.wait_until(pressed, f"{number.name} is answered by {answer!r}")

    def close(self):
        self._selector.close()
        os.close(self._handle)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass


class EndToEndTest(unittest.TestCase):
    """assertions that local and ssh tests share."""
    maxDiff = None

    def setUp(self):
        self.journals = Journals()
        self.addCleanup(self.journals.close)

    def assertReplays(self):
        """Once all launchers of the test are gone."""
        self.assertEqual(self.journals.differences(TRAINRUN), "", "a journal is not replayed as it was written")

    def assertEnds(self, result, rc):
        """With that exit code; prints all it said otherwise."""
        self.assertEqual(result.rc, rc, str(result))
        return result

    def assertSays(self, result, *patterns):
        """Each pattern is found in stderr."""
        for pattern in patterns:
            if not re.search(pattern, result.err, re.MULTILINE):
                self.fail(f"stderr has no {pattern!r}: {result}")
        return result

    def assertQuietOn(self, result, *patterns):
        for pattern in patterns:
            if re.search(pattern, result.out + result.err, re.MULTILINE):
                self.fail(f"it says {pattern!r}: {result}")


class LocalTest(EndToEndTest):
    """Jobs on this host. Each test has its own temporary folder, home and mark."""

    # In /dev/shm. Our jobs have a TMPDIR: a job's directory in memory is that of somebody else on this machine, and what
    # MPI programs share there is looked at by their own tests (mpi.MpiTest), which run alone. Python's semaphores
    # (sem.mp-*) may outlive their processes for a moment: a tracker removes them.
    NOT_OURS = ("sem.mp-", "trainrun.", "trainrun-test-", "ucx_shm_posix_", "vader_segment.", "sm_segment.", "mpich_shar")

    def setUp(self):
        super().setUp()
        self.mark = uuid.uuid4().hex
        self.folder = tempfile.mkdtemp(prefix="trainrun-test-")
        self.temporary, self.home = self.folder + "/tmp", self.folder + "/home"
        os.mkdir(self.temporary)
        os.mkdir(self.home)
        self.jobs = []
        self.shared_memory = set(os.listdir("/dev/shm"))
        self.may_leave = False  # a test that kills so hard that files must be looked at by itself

    def tearDown(self):
        try:
            self.assertNothingLeft()
            self.assertReplays()
        finally:
            for job in self.jobs:
                job.close()
            for pid, _ in marked(self.mark):
                kill(pid)
            shutil.rmtree(self.folder, ignore_errors=True)

    def environment(self, extra=None):
        return {**BASE_ENVIRONMENT, "HOME": self.home, "TMPDIR": self.temporary, MARK: self.mark,
                **self.journals.environment, **(extra or {})}

    def start(self, *words, env=None, feed=None, program=TRAINRUN, **options):
        """Starts trainrun with `words`; `feed`: bytes for its stdin (default: /dev/null)."""
        command = [program, *map(str, words)]
        options = {"stdin": subprocess.PIPE if feed is not None else subprocess.DEVNULL, "stdout": subprocess.PIPE,
                   "stderr": subprocess.PIPE, "cwd": self.folder, **options}
        process = subprocess.Popen(command, env=self.environment(env), **options)
        job = Job(process, command, feed, lambda: [pid for pid, _ in marked(self.mark)])
        self.jobs.append(job)
        return job

    def run_job(self, *words, timeout=DEADLINE, **options):
        return self.start(*words, **options).wait(timeout)

    def processes(self, needle=None):
        """Processes of this test's jobs, or those whose command has `needle`."""
        return [(pid, command) for pid, command in marked(self.mark) if needle is None or needle in command]

    def workers(self):
        return [(pid, command) for pid, command in self.processes() if command.startswith(WORKER + " ")]

    def assertAllGone(self, timeout=DEADLINE, but=()):
        """Every process of this test's jobs ends within `timeout`."""
        deadline = time.monotonic() + timeout
        while True:
            left = [(pid, command) for pid, command in marked(self.mark) if pid not in but]
            if not left:
                return
            if time.monotonic() > deadline:
                report = describe(pid for pid, _ in left)
                for pid, _ in left:
                    kill(pid)
                self.fail(f"{len(left)} left after {timeout:.0f} s:\n{report}")
            _await_end(left[0][0], 0.5)

    def assertNothingLeft(self):
        self.assertAllGone(timeout=5)
        if not self.may_leave:
            self.assertEqual(tree(self.temporary), [], "files were left in the temporary folder")
            left = [name for name in tree(self.home) if not name.startswith(".cache/trainrun/")]
            self.assertEqual(left, [], "files were left in the home")
            left = {name for name in os.listdir("/dev/shm") if not name.startswith(self.NOT_OURS)} - self.shared_memory
            # Ours are gone: what a living process maps is that of a test beside this one, which may remove it meanwhile.
            left -= in_use("/dev/shm/") if left else set()
            self.assertEqual({name for name in left if os.path.exists("/dev/shm/" + name)}, set(), "left in /dev/shm")


def in_use(folder):
    """Names in `folder` that some process has mapped."""
    names = set()
    for maps in glob.glob("/proc/[0-9]*/maps"):
        try:
            with open(maps, encoding="utf-8", errors="replace") as lines:
                names.update(line.split(folder, 1)[1].rstrip("\n") for line in lines if folder in line)
        except OSError:  # it has ended
            pass
    return names


def _await_end(pid, timeout):
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return
    selector = selectors.DefaultSelector()
    selector.register(handle, selectors.EVENT_READ)
    selector.select(timeout)
    selector.close()
    os.close(handle)


def tree(top):
    return sorted(os.path.relpath(os.path.join(folder, name), top) for folder, folders, names in os.walk(top)
                  for name in names + [each for each in folders if not os.listdir(os.path.join(folder, each))])


def told(result):
    """The JSON that `worker env` printed, by rank."""
    found = {}
    for line in result.out.splitlines():
        start = line.find("{")
        if start >= 0:
            value = json.loads(line[start:])
            found[int(value["env"]["RANK"])] = value
    return found


def main():
    """Runs the tests of the calling file; exit code 77 when any was skipped and none failed."""
    for program in (TRAINRUN, WORKER):
        if not os.access(program, os.X_OK):
            print(f"SKIP: {program} is not built")
            sys.exit(77)
    run = unittest.main(verbosity=2, exit=False)
    print(f"{Journals.replayed} journals were replayed")
    for test, reason in run.result.skipped:
        print(f"SKIP: {test}: {reason}")
    sys.exit(1 if not run.result.wasSuccessful() else 77 if run.result.skipped else 0)
