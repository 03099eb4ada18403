"""Names of operations. Those that the program gives travel along as numbers, so that ranks which call different things of equal
kind, type and size at the same time hear of it; those that are made here for the timeline do not."""
import contextlib
import itertools
import zlib

from trainrun._library import Mismatch

_numbers = itertools.count()


class _Made(str):
    """Nobody gave it."""


def named(name, kind):
    return _Made(f"{kind}.noname.{next(_numbers)}") if name is None else name


def number_of(name):
    """0: of no name that the program gave."""
    return 0 if name is None or isinstance(name, _Made) else zlib.crc32(str(name).encode()) & 0xffffff or 1


@contextlib.contextmanager
def told(*names):
    """Within it, a failure that speaks of a name's number says the name too: other ranks may not know it."""
    try:
        yield
    except Mismatch as error:
        for name in names:
            words = f"{number_of(name):06x} is {str(name)!r} on this rank"
            if f"name {number_of(name):06x} " in error.args[0] and words not in error.args[0]:
                error.args = (f"{error.args[0]}; {words}",)
        raise
