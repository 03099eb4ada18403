"""The shared library, its functions with their types, and its failures as exceptions."""
import ctypes
import math
import os
from ctypes import POINTER, Structure, c_char, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p


class Options(Structure):
    _fields_ = [("struct_size", c_uint32), ("reserved", c_uint32), ("op_timeout_ms", c_int64),
                ("init_timeout_ms", c_int64)]


class ErrorInfo(Structure):
    _fields_ = [("struct_size", c_uint32), ("status", c_int32), ("generation", c_uint32), ("culprit", c_int32),
                ("sequence", c_uint64), ("missing_count", c_uint32), ("missing", c_int32 * 64),
                ("operation", c_char * 32), ("host", c_char * 256), ("how", c_char * 512), ("message", c_char * 1024)]


class Operation(Structure):
    _fields_ = [("struct_size", c_uint32), ("state", c_int32), ("sequence", c_uint64), ("bytes", c_uint64), ("begun_ns", c_int64),
                ("ended_ns", c_int64), ("dtype", c_int32), ("name", c_char * 20)]


class Error(RuntimeError):
    """`culprit`: rank or None; `host` and `how`: of the culprit; `missing`: ranks that did not come; `operation` and
    `sequence`: in which it happened; `status`: the library's; `generation`: of the world, 0 outside one."""

    def __init__(self, info=""):
        """`info`: the library's; or words, of a program that raises one itself."""
        if not isinstance(info, ErrorInfo):
            status = next((status for status, kind in _KINDS.items() if isinstance(self, kind)), ABORTED)
            info = ErrorInfo(status=status, culprit=-1, message=str(info).encode()[:1023])
        super().__init__(_text(info.message))
        self.status = info.status
        self.culprit = info.culprit if info.culprit >= 0 else None
        self.missing = list(info.missing[:min(info.missing_count, 64)])
        self.operation, self.sequence, self.generation = _text(info.operation), info.sequence, info.generation
        self.host, self.how = _text(info.host), _text(info.how)


class WorldFailed(Error):
    """The world is over, and another one can mend it."""


class PeerLost(WorldFailed):
    """A rank died."""


class Aborted(WorldFailed):
    """The generation ended, or a rank gave up."""


class Timeout(WorldFailed):
    """The operation's time has passed."""


class Mismatch(Error):
    """Ranks called different things."""


class Transport(WorldFailed):
    """A connection failed although no rank is known to have died."""


class Invalid(Error):
    """A wrong argument or environment."""


class Unsupported(Error):
    """A right one that this version cannot do."""


class Device(Error):
    """NCCL or CUDA failed in this process."""


class RestartRequired(Error):
    """As Device, and this process cannot use the device any more: let it end, and the launcher starts another."""


class HostsUpdated(Error):
    """No failure: hosts will come or go. Raised on all ranks at the same point."""


class Removed(SystemExit):
    """The job goes on without this process. Not caught, it ends the process with exit code 0."""

    def __init__(self):
        super().__init__(0)


OK, ABORTED, HOSTS_UPDATED, REMOVED = 0, 2, 9, 10
_KINDS = {1: PeerLost, 2: Aborted, 3: Timeout, 4: Mismatch, 5: Transport, 6: Invalid, 7: Unsupported, 9: HostsUpdated,
          11: Device, 12: RestartRequired}


def _text(raw):
    return raw.decode("utf-8", "replace")


def _load():
    named = os.environ.get("TRAINRUN_COMM_LIBRARY")
    # Installed as PREFIX/lib/python3/dist-packages/trainrun, with the library below PREFIX/lib.
    lib = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
    beside = [os.path.join(lib, folder, "libtrainrun_comm.so.0")
              for folder in ("", *(f for f in (os.listdir(lib) if os.path.isdir(lib) else ()) if f.endswith("linux-gnu")))]
    for path in [named] if named else [p for p in beside if os.path.exists(p)] + ["libtrainrun_comm.so.0"]:
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            why = error
    raise ImportError(f"cannot load libtrainrun_comm.so.0: {why}; set TRAINRUN_COMM_LIBRARY to its path")


lib = _load()


def declare(functions):
    """(name, type of the result, types of the arguments) of each."""
    for name, result, arguments in functions:
        try:
            function = getattr(lib, name)
        except AttributeError:
            raise ImportError(f"{lib._name} has no {name}: it is of another version than this package in {os.path.dirname(__file__)}; "
                              "set TRAINRUN_COMM_LIBRARY to the library that came with the package") from None
        function.restype, function.argtypes = result, arguments


declare([
        ("trc_world_init", c_int, [POINTER(Options), POINTER(c_void_p)]),
        ("trc_world_finalize", c_int, [c_void_p]),
        ("trc_world_free", None, [c_void_p]),
        ("trc_rank", c_int, [c_void_p]),
        ("trc_size", c_int, [c_void_p]),
        ("trc_local_rank", c_int, [c_void_p]),
        ("trc_local_size", c_int, [c_void_p]),
        ("trc_generation", c_uint32, [c_void_p]),
        ("trc_host", c_char_p, [c_void_p, c_int]),
        ("trc_backend", c_char_p, [c_void_p]),
        ("trc_world_group", c_void_p, [c_void_p]),
        ("trc_allreduce", c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_int]),
        ("trc_broadcast", c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int]),
        ("trc_allgather", c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_int]),
        ("trc_group_create", c_int, [c_void_p, POINTER(c_int), c_size_t, POINTER(c_void_p)]),
        ("trc_group_free", c_int, [c_void_p]),
        ("trc_group_leave", c_int, [c_void_p]),
        ("trc_group_rank", c_int, [c_void_p]),
        ("trc_group_size", c_int, [c_void_p]),
        ("trc_allreduce_scaled", c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_int, c_double, c_double]),
        ("trc_reduce", c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_int, c_int]),
        ("trc_reduce_scatter", c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_int]),
        ("trc_allgatherv", c_int, [c_void_p, c_void_p, c_void_p, POINTER(c_uint64), c_int]),
        ("trc_gather", c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_int]),
        ("trc_scatter", c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_int]),
        ("trc_alltoall", c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_int]),
        ("trc_alltoallv", c_int, [c_void_p, c_void_p, POINTER(c_uint64), c_void_p, POINTER(c_uint64), c_int]),
        ("trc_send", c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int]),
        ("trc_recv", c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int]),
        ("trc_barrier", c_int, [c_void_p]),
        ("trc_join", c_int, [c_void_p]),
        ("trc_group_recent", c_size_t, [c_void_p, POINTER(Operation), c_size_t]),
        ("trc_last_error", c_int, [POINTER(ErrorInfo)]),
        ("trc_state_new", c_int, [POINTER(c_void_p)]),
        ("trc_state_free", None, [c_void_p]),
        ("trc_state_add", c_int, [c_void_p, c_char_p, c_void_p, c_size_t]),
        ("trc_state_add_blob", c_int, [c_void_p, c_char_p]),
        ("trc_state_set_blob", c_int, [c_void_p, c_char_p, c_char_p, c_size_t]),
        ("trc_state_get_blob", c_int, [c_void_p, c_char_p, POINTER(c_void_p), POINTER(c_size_t)]),
        ("trc_state_save", c_int, [c_void_p]),
        ("trc_state_restore", c_int, [c_void_p]),
        ("trc_state_sync", c_int, [c_void_p, c_void_p]),
        ("trc_check_host_updates", c_int, [c_void_p]),
        ("trc_should_stop", c_int, [c_void_p]),
        ("trc_elastic_new", c_int, [POINTER(Options), POINTER(c_void_p)]),
        ("trc_elastic_free", None, [c_void_p]),
        ("trc_elastic_form", c_int, [c_void_p, c_void_p, c_int, POINTER(c_void_p)]),
        ("trc_elastic_finish", c_int, [c_void_p]),
        ("trc_elastic_goes_on", c_int, [c_int]),
        ("trc_nccl_id_count", c_size_t, [c_size_t]),
        ("trc_nccl_ids", c_int, [c_void_p, POINTER(c_int), c_size_t, c_void_p, c_size_t]),
        ("trc_nccl_group_create", c_int, [c_void_p, POINTER(c_int), c_size_t, c_int, c_void_p, POINTER(c_void_p)]),
        ("trc_nccl_beside", c_int, [c_void_p, c_void_p, c_int, c_int, c_int, c_void_p, POINTER(c_void_p)]),
        ("trc_nccl_use_stream", c_int, [c_void_p, c_void_p]),
        ("trc_nccl_wait", c_int, [c_void_p, c_void_p]),
        ("trc_nccl_allreduce_list", c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_double, c_double]),
        ("trc_nccl_look_at", c_int, [c_char_p]),
        ("trc_describe_host", c_char_p, [c_int])])


def check(status):
    if status == OK:
        return
    if status == REMOVED:
        raise Removed()
    info = ErrorInfo(struct_size=ctypes.sizeof(ErrorInfo))
    lib.trc_last_error(ctypes.byref(info))
    raise _KINDS.get(status, Error)(info)


def invalid(why):
    """What the library would answer."""
    return Invalid(ErrorInfo(struct_size=ctypes.sizeof(ErrorInfo), status=6, culprit=-1, message=why.encode()))


def timed_out(why, missing=()):
    """What the library would answer."""
    info = ErrorInfo(struct_size=ctypes.sizeof(ErrorInfo), status=3, culprit=-1, message=why.encode(), missing_count=len(missing))
    info.missing[:len(missing[:64])] = missing[:64]
    return Timeout(info)


def _milliseconds(seconds):
    """At least one for a time above 0, since 0 means the default; at most what the library takes as for ever."""
    return math.ceil(min(seconds, 1e9) * 1000) if seconds else 0


def options(op_timeout, init_timeout):
    """Times in seconds; None leaves them to the environment."""
    return Options(ctypes.sizeof(Options), 0, _milliseconds(op_timeout), _milliseconds(init_timeout))
