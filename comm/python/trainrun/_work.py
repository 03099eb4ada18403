"""Operations that are started and go on by themselves (trainrun_work.h), and the threads that hear of their ends."""
import atexit
import ctypes
import itertools
import os
import select
import threading
import time
from ctypes import POINTER, Structure, c_double, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

from trainrun._library import check, declare, lib

(ALLREDUCE, REDUCE, REDUCE_SCATTER, BROADCAST, ALLGATHER, ALLGATHERV, GATHER, SCATTER, ALLTOALL, ALLTOALLV, BARRIER, SEND,
 RECV, JOIN) = range(14)
_TIMEOUT = 3


class Call(Structure):
    _fields_ = [("struct_size", c_uint32), ("kind", c_int32), ("dtype", c_int32), ("op", c_int32), ("root", c_int32),
                ("name", c_uint32), ("give", c_void_p), ("get", c_void_p), ("count", c_uint64), ("before", c_double),
                ("after", c_double), ("in_counts", POINTER(c_uint64)), ("out_counts", POINTER(c_uint64))]


declare([
        ("trc_start", c_int, [c_void_p, POINTER(Call), c_size_t, c_void_p, c_uint64, POINTER(c_void_p)]),
        ("trc_run", c_int, [c_void_p, POINTER(Call), c_size_t]),
        ("trc_work_ended", c_int, [c_void_p]),
        ("trc_work_wait", c_int, [c_void_p, c_int64]),
        ("trc_work_times", None, [c_void_p, POINTER(c_int64), POINTER(c_int64)]),
        ("trc_work_free", None, [c_void_p]),
        ("trc_completions_new", c_int, [POINTER(c_void_p)]),
        ("trc_completions_descriptor", c_int, [c_void_p]),
        ("trc_completions_next", c_int, [c_void_p, POINTER(c_uint64)])])


def call(kind, give=None, get=None, count=0, dtype=0, op=0, root=0, before=1, after=1, in_counts=None, out_counts=None):
    """Addresses of what is given and of what is got; counts are lists."""
    if before == after == 0:
        after = 1  # to the library both 0 are no factors

    def array(counts):
        return None if counts is None else (c_uint64 * len(counts))(*counts)
    return Call(ctypes.sizeof(Call), kind, dtype, op, root, 0, give, get, count, before, after, array(in_counts), array(out_counts))


_PATIENCE = 0.001  # seconds in which what is called at an end usually returns; of what takes longer, the order is not kept


class _Ear:
    """Threads that are told of the ends of works, and keep what they need until then. One after another they tell of an end; what
    they call may wait for the end of another work, of which the next thread tells meanwhile."""

    def __init__(self):
        self.completions = c_void_p()
        check(lib.trc_completions_new(ctypes.byref(self.completions)))
        self.works, self.tags = {}, itertools.count(1)
        self._threads, self._idle, self._lock = set(), 0, threading.Lock()
        self._turn = threading.Lock()  # to tell, so that one thread does it and not many

    def listen(self):
        """Not before a work was started: in a forked child none is."""
        if self._threads:
            return
        with self._lock:
            if self._threads:
                return
            self._quit, self._wake = os.pipe()
            self._ends, self._end = select.epoll(), lib.trc_completions_descriptor(self.completions)
            # Oneshot: an end wakes one thread, which arms it again when it has taken the end and its turn.
            self._ends.register(self._end, select.EPOLLIN | select.EPOLLONESHOT)
            self._ends.register(self._quit, select.EPOLLIN)
            self._add()
            # A thread that still runs when the interpreter is taken apart could not be stopped in torch's C++.
            atexit.register(self._stop, os.getpid())

    def _add(self):  # with the lock: who finds a thread in the set may join it
        thread = threading.Thread(target=self._hear, name="trainrun-works", daemon=True)
        thread.start()
        self._threads.add(thread)
        self._idle += 1

    def _hear(self):
        tag = c_uint64()
        while not any(descriptor == self._quit for descriptor, _ in self._ends.poll()):
            with self._lock:
                self._idle -= 1
            turn = self._turn
            if not turn.acquire(timeout=_PATIENCE):  # what its owner calls may wait for this very end
                turn = self._turn = threading.Lock()
                turn.acquire()
            try:
                ended = self.works.pop(tag.value) if lib.trc_completions_next(self.completions, ctypes.byref(tag)) else None
                self._ends.modify(self._end, select.EPOLLIN | select.EPOLLONESHOT)
                if ended is not None:
                    ended.settle(self._stand_by)
            finally:
                turn.release()
            with self._lock:
                if self._idle == 2:  # one that waits in its place is enough
                    self._threads.discard(threading.current_thread())
                    return
                self._idle += 1

    def _stand_by(self):
        """Another thread is there for the next end while this one calls what may wait."""
        with self._lock:
            if self._idle == 0:
                self._add()

    def _stop(self, pid):
        if pid != os.getpid():
            return
        os.write(self._wake, b"q")
        until = time.monotonic() + 1
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(max(0, until - time.monotonic()))
        if self.works:  # the library may still write to their buffers, until the process has ended
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.works))


_ear, _ear_lock = None, threading.Lock()


def _forget():
    global _ear, _ear_lock
    _ear, _ear_lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget)


def _hearing():
    global _ear
    if _ear is None:
        with _ear_lock:
            if _ear is None:
                _ear = _Ear()
    return _ear


def run(group, calls):
    """In this thread, after what was started before."""
    check(lib.trc_run(group, (Call * len(calls))(*calls), len(calls)))


class Started:
    """A work. `keep`: what must stay until it has ended; `finish` is called once after a good end, on any thread, and then
    `told` with the times of time.monotonic_ns() at which its turn came and it ended."""

    def __init__(self, group, calls, keep=None, finish=None, told=None):
        self._handle, self._keep, self._finish, self._told = c_void_p(), keep, finish, told
        self._lock, self._settled, self._error, self._then = threading.Lock(), False, None, []
        ear = _hearing()
        tag = next(ear.tags)
        ear.works[tag] = self
        with self._lock:  # it may end, and be settled, before its handle is here
            status = lib.trc_start(group, (Call * len(calls))(*calls), len(calls), ear.completions, tag, ctypes.byref(self._handle))
        if status:
            del ear.works[tag]
            check(status)
        ear.listen()

    def __del__(self, free=lib.trc_work_free):  # also when the interpreter has taken this module apart
        free(self._handle)

    def ended(self):
        return bool(lib.trc_work_ended(self._handle))

    def wait(self, seconds=None):
        """False: it goes on when the time has passed. Raises what has become of it."""
        status = lib.trc_work_wait(self._handle, -1 if seconds is None else int(seconds * 1000))
        if status == _TIMEOUT and not self.ended():
            return False
        error = self.settle()
        if error is not None:
            raise error
        return True

    def error(self):
        """Why it has failed; None if it goes on, or ended well."""
        return self.settle() if self.ended() else None

    def then(self, function):
        """Calls it with the error, or None, when it has ended; at once if it has."""
        with self._lock:
            if not self._settled:
                self._then.append(function)
                return
        function(self._error)

    def settle(self, before_it_calls=None):
        """After its end, by whoever comes first: the user or the ear."""
        with self._lock:
            if self._settled:
                return self._error
            try:
                check(lib.trc_work_wait(self._handle, 0))
                if self._finish is not None:
                    self._finish()
                if self._told is not None:
                    begun, ended = c_int64(), c_int64()
                    lib.trc_work_times(self._handle, ctypes.byref(begun), ctypes.byref(ended))
                    self._told(begun.value, ended.value)
            except Exception as error:  # its own, or of `finish`; the ear goes on
                self._error = error
            self._settled, self._keep, self._finish, self._told = True, None, None, None
            waiting, self._then = self._then, None
        if waiting and before_it_calls is not None:
            before_it_calls()
        for function in waiting:
            function(self._error)
        return self._error
