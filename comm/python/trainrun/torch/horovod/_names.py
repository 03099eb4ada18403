"""What ranks must call alike: the name that the program gives an operation, and the shapes of its tensors. Both travel along as
one number, so that ranks which call different things of equal kind, type and size at the same time hear of it. Names that are
made here are for the timeline alone."""
import contextlib
import itertools
import re
import zlib

from trainrun._library import Mismatch, Timeout

_numbers = itertools.count()
_LONGEST = 200  # characters that a message says
_meanings = {}  # of the numbers in failures that this rank has heard of: later calls raise the first one again


class _Made(str):
    """Nobody gave it."""


def named(name, kind):
    return _Made(f"{kind}.noname.{next(_numbers)}") if name is None else name


def described(name, tensors=(), rows=True, more=""):
    """In words. `rows`: the first dimension counts, too. `more`: what else must be alike."""
    words = [] if name is None or isinstance(name, _Made) else [repr(str(name))]
    shapes = [tuple(tensor.shape if rows else tensor.shape[1:]) for tensor in tensors]
    if shapes:
        words.append(f"{'of' if rows else 'of rows of'} shape{'s' * (len(shapes) > 1)} {', '.join(map(str, shapes))}")
    return ", ".join(words + [more] * bool(more))


def number_of(words):
    """0: there are none."""
    return words and (zlib.crc32(words.encode()) & 0xffffff or 1) or 0


def _said(found, unknown):
    words = _meanings.get(found[1], unknown)
    return f" [{words}]" if words else found[0]


@contextlib.contextmanager
def told(*every):
    """Within it, a failure says in words what this rank has called, where the library has a number. Other ranks' words are not
    known here."""
    try:
        yield
    except (Mismatch, Timeout) as error:
        every = list(filter(None, every))
        for words in every:
            _meanings[f"{number_of(words):06x}"] = words if len(words) <= _LONGEST else words[:_LONGEST] + "..."
        unknown = "another name or shape" if every else ""
        error.args = (re.sub(" of the name ([0-9a-f]{6})", lambda found: _said(found, unknown), error.args[0]),)
        raise
