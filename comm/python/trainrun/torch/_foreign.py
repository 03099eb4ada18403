"""libtrainrun_comm's functions for programs whose data goes through another library (trainrun_foreign.h)."""
import ctypes
from ctypes import POINTER, c_char_p, c_int, c_int64, c_size_t, c_uint64, c_void_p

from trainrun import _library
from trainrun._library import ErrorInfo, Unsupported, check, lib

for _name, _arguments in [
        ("trc_foreign_sockets", [c_void_p, POINTER(c_char_p), c_size_t, POINTER(c_char_p), c_size_t]),
        ("trc_foreign_failed", [c_void_p, c_char_p, c_char_p, c_int]),
        ("trc_foreign_over", [c_void_p]),
        ("trc_foreign_steps", [c_void_p, c_uint64]),
        ("trc_foreign_pause", [c_void_p, c_int]),
        ("trc_foreign_put", [c_void_p, c_char_p, c_void_p, c_size_t]),
        ("trc_foreign_compare_and_set", [c_void_p, c_char_p, c_void_p, c_size_t, c_void_p, c_size_t, POINTER(c_void_p),
                                         POINTER(c_size_t)]),
        ("trc_foreign_get", [c_void_p, c_char_p, c_int64, POINTER(c_void_p), POINTER(c_size_t)])]:
    _function = getattr(lib, _name)
    _function.restype, _function.argtypes = c_int, _arguments


def unsupported(why):
    """What the library would answer."""
    return Unsupported(ErrorInfo(struct_size=ctypes.sizeof(ErrorInfo), status=7, culprit=-1, message=why.encode()))


def sockets(world, own, peers):
    lists = [(c_char_p * len(names))(*(name.encode() for name in names)) for names in (own, peers)]
    check(lib.trc_foreign_sockets(world, lists[0], len(own), lists[1], len(peers)))


def failed(world, operation, text, timed_out):
    """The exception that tells why an operation of the other library failed."""
    try:
        check(lib.trc_foreign_failed(world, operation.encode(), text.encode(errors="replace"), timed_out))
    except _library.Error as error:
        return error
    raise AssertionError("trc_foreign_failed has found no failure")


def over(world):
    """The exception that tells how the generation has ended; None as long as it goes on."""
    try:
        check(lib.trc_foreign_over(world))
    except _library.Error as error:
        return error
    return None


def put(world, key, value):
    check(lib.trc_foreign_put(world, key.encode(), value, len(value)))


def compare_and_set(world, key, expected, desired):
    data, size = c_void_p(), c_size_t()
    check(lib.trc_foreign_compare_and_set(world, key.encode(), expected, len(expected), desired, len(desired),
                                          ctypes.byref(data), ctypes.byref(size)))
    return ctypes.string_at(data, size.value)


def get(world, key, seconds):
    data, size = c_void_p(), c_size_t()
    check(lib.trc_foreign_get(world, key.encode(), int(seconds * 1000), ctypes.byref(data), ctypes.byref(size)))
    return ctypes.string_at(data, size.value)
