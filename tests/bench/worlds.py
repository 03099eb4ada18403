"""Jobs whose workers say when they begin, for tests/bench/recovery: started, hurt at a known time, listened to."""
import collections
import os
import signal
import socket
import struct
import subprocess
import time

import measure

Hello = collections.namedtuple("Hello", "rank round at pid")
"""One worker has come to the point that is measured. round: its restart count, or generation; at: seconds of the monotonic
clock, read by the worker; pid: as it is seen from here."""


class NotHeard(Exception):
    """Fewer workers than expected spoke within the deadline, or the job ended."""


class Ear:
    """The socket that workers speak to. Hosts of a lab reach it too: they share the file system and the clock."""
    def __init__(self, folder):
        self.path = os.path.join(folder, "ear")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.bind(self.path)

    def close(self):
        self._socket.close()
        os.unlink(self.path)

    def drop_all(self):
        """What workers of an earlier job still said."""
        self._socket.settimeout(0)
        try:
            while True:
                self._socket.recv(256)
        except BlockingIOError:
            pass

    def hear(self, count, seconds):
        """The next `count` hellos."""
        hellos, deadline = [], time.monotonic() + seconds
        while len(hellos) < count:
            self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                text, credentials, _, _ = self._socket.recvmsg(256, socket.CMSG_SPACE(12))
            except TimeoutError:
                raise NotHeard(f"{len(hellos)} of {count} workers were heard within {seconds:.0f} s") from None
            pid = struct.unpack("3i", credentials[0][2])[0]
            rank, turn, at = map(int, text.split())
            hellos.append(Hello(rank, turn, at / 1e9, pid))
        return hellos


class Job:
    """A launcher, or several that make one job (torchrun has one a host), and the workers that were heard."""
    def __init__(self, place, ear, commands):
        """commands: [(host or None, argv)]."""
        self._ear = ear
        self._pids = set()
        self.numbers_rounds = len(commands) == 1  # one launcher, one count
        ear.drop_all()
        self._log = open(os.path.join(place.folder, "job.log"), "w+b")
        self.launchers = [self._start(place, host, argv) for host, argv in commands]

    def _start(self, place, host, argv):
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": self._log, "start_new_session": True}
        argv = [str(word) for word in argv]
        if host is None:
            return subprocess.Popen(argv, env=measure.ENVIRONMENT, cwd=place.folder, **options)
        return place.lab.popen(host, argv, env=measure.ENVIRONMENT, cwd=place.folder, **options)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def hear(self, count, seconds=60):
        try:
            hellos = self._ear.hear(count, seconds)
        except NotHeard as problem:
            raise NotHeard(f"{problem}\n{self.said()}") from None
        self._pids.update(hello.pid for hello in hellos)
        return hellos

    def said(self):
        """The end of what launchers and workers wrote to stderr."""
        self._log.flush()
        self._log.seek(max(self._log.seek(0, os.SEEK_END) - 3000, 0))
        return self._log.read().decode(errors="replace").strip()

    def await_end(self, seconds):
        """When the last launcher had ended (monotonic), or None after the deadline. Blocking waits on pidfds: nothing
        rounds the time up."""
        import select
        poll = select.poll()
        waited = {os.pidfd_open(launcher.pid): launcher for launcher in self.launchers if launcher.poll() is None}
        for handle in waited:
            poll.register(handle, select.POLLIN)
        deadline, at = time.monotonic() + seconds, time.monotonic()
        try:
            while waited:
                ready = poll.poll(max((deadline - time.monotonic()) * 1000, 0))
                at = time.monotonic()
                if not ready:
                    return None
                for handle, _ in ready:
                    poll.unregister(handle)
                    waited.pop(handle).wait()
                    os.close(handle)
            return at
        finally:
            for handle in waited:
                os.close(handle)

    def end(self):
        """As a user ends it; whoever does not go then is killed: nothing of one run may weigh on the next."""
        for launcher in self.launchers:
            if launcher.poll() is None:
                launcher.send_signal(signal.SIGTERM)
        if self.await_end(5) is None:
            for launcher in self.launchers:
                if launcher.poll() is None:
                    launcher.kill()
                    launcher.wait()
        for pid in self._pids:
            _kill_if_ours(pid)
        self._log.close()


def _kill_if_ours(pid):
    # A number that was given away again belongs to somebody who does not have our program in its words.
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read()
        if b"beacon" in words or b"bench_" in words:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    except OSError:
        pass
    finally:
        os.close(handle)


def kill(hello):
    """kill -9 of one worker; when it was sent."""
    at = time.monotonic()
    os.kill(hello.pid, signal.SIGKILL)
    return at


def own_start(place, ear, program, count):
    """What the program itself needs: from starting `count` of it at once, by nobody, until the last has begun."""
    ear.drop_all()
    begun = time.monotonic()
    pids = [os.posix_spawn(program[0], program, measure.ENVIRONMENT) for _ in range(count)]
    try:
        return max(hello.at for hello in ear.hear(count, 30)) - begun
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
