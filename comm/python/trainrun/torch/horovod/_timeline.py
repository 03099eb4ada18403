"""What this rank's operations did when, for chrome://tracing and Perfetto, in Horovod's words.

A file a rank: rank 0 writes PATH, rank 3 PATH with .3 before its ending. Times are those of rank 0's clock in all of them, so
that they can be looked at together. A process of the trace is a tensor (its name), with what it went through: QUEUE until
its turn came, then ALLREDUCE (ALLGATHER, ...), in it SHM_ALLREDUCE (GLOO_, HIER_, LOCAL_), which is the library's part. There
is no NEGOTIATE: ranks agree within the operation.
"""
import array
import atexit
import contextlib
import json
import os
import statistics
import threading
import time
import warnings

from trainrun.torch.horovod import _place

_ROUNDS = 7
_timeline = None
_ahead = 0  # nanoseconds by which rank 0's clock is ahead of ours


class _Timeline:
    def __init__(self, path, rank, backend):
        stem, ending = os.path.splitext(path)
        # Line by line: what a killed rank did is there, and a forked child has no copy of something unwritten.
        self._file = open(path if rank == 0 else f"{stem}.{rank}{ending}", "w", encoding="utf-8", buffering=1)
        self._lock, self._tensors, self._backend = threading.Lock(), {}, backend.upper()
        self.pid = os.getpid()
        self._file.write("[\n")
        now = (time.monotonic_ns() + _ahead) // 1000
        self._write({"name": "process_labels", "ph": "M", "pid": 0, "args": {"labels": f"rank {rank}"}})
        self._write({"name": "start", "ph": "i", "pid": 0, "ts": now, "s": "g",
                     "args": {"start_time_since_epoch_in_micros": time.time_ns() // 1000, "rank": rank}})

    def _write(self, event):
        self._file.write(json.dumps(event) + ",\n")

    def operation(self, name, kind, started, begun, ended):
        """Times of this process's monotonic clock, in nanoseconds."""
        with self._lock, self._ending_it():
            if self._file.closed:
                return
            number = self._tensors.get(name)
            if number is None:
                number = self._tensors[name] = len(self._tensors) + 1
                self._write({"name": "process_name", "ph": "M", "pid": number, "args": {"name": name}})
            for what, first, last in (("QUEUE", started, begun), (kind, begun, ended), (f"{self._backend}_{kind}", begun, ended)):
                self._write({"name": what, "ph": "X", "pid": number, "tid": 0, "ts": (first + _ahead) / 1000,
                             "dur": max(0, last - first) / 1000})

    def close(self):
        with self._lock, self._ending_it():
            if not self._file.closed:
                self._file.write("{}\n]\n")
                self._file.close()

    @contextlib.contextmanager
    def _ending_it(self):
        """What cannot be written, as on a full disk, ends the timeline and not the training."""
        try:
            yield
        except OSError as error:
            warnings.warn(f"the timeline {self._file.name} ends here: {error}", stacklevel=1)
            with contextlib.suppress(OSError):  # what is left in its buffer
                self._file.close()


def recording():
    """Where operations that begin now are told, or None."""
    return _timeline


def start_timeline(file_path, mark_cycles=False):
    """From now on, until stop_timeline() or the end. `mark_cycles` says nothing here: there are no cycles."""
    global _timeline
    world = _place.world()
    if _timeline is not None:
        raise ValueError("a timeline is being written already; try: hvd.stop_timeline()")
    _timeline = _Timeline(file_path, world.rank, world.backend)


def stop_timeline():
    global _timeline
    _place.place()
    ending, _timeline = _timeline, None
    if ending is not None:
        ending.close()


@_place.on_world
def _renew(world):
    global _ahead
    _ahead = _measured(world)
    path = os.environ.get("HOROVOD_TIMELINE", "")
    if path and path != "DYNAMIC" and _timeline is None:
        start_timeline(path)


def _measured(world):
    """A host has one clock. Of several all ranks look at theirs when a barrier lets them go, several times; the first of a host
    to look is the one that was not held up."""
    hosts = [world.host(rank) for rank in range(world.size)]
    if len(set(hosts)) == 1:
        return 0
    seen = []
    for _ in range(_ROUNDS):
        world.barrier()
        every = world.allgather(array.array("q", [time.monotonic_ns()]), array.array("q", bytes(8 * world.size)))
        first, own = (min(when for host, when in zip(hosts, every) if host == which) for which in (hosts[0], hosts[world.rank]))
        seen.append(first - own)
    return int(statistics.median(seen))


@atexit.register
def _at_the_end():
    if _timeline is not None and os.getpid() == _timeline.pid:
        _timeline.close()

