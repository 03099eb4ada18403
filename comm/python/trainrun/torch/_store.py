"""The store in which torch's backend meets: the rendezvous of the generation, which no rank's death ends."""
import torch.distributed as dist

from trainrun import _library
from trainrun.torch import _foreign

DEFAULT_TIMEOUT = 300.0  # seconds, unless torch says how long


def _bytes(value):
    return value.encode() if isinstance(value, str) else bytes(value)


class Store(dist.Store):
    """Keys of one generation; `world` gives the handle of the current one. What torch asks for beyond this is refused
    by torch itself, by name."""

    def __init__(self, world):
        super().__init__()
        self._world, self._timeout = world, DEFAULT_TIMEOUT

    def set(self, key, value):
        _foreign.put(self._world(), "torch/" + key, _bytes(value))

    def compare_set(self, key, expected, desired):
        return _foreign.compare_and_set(self._world(), "torch/" + key, _bytes(expected), _bytes(desired))

    def get(self, key):
        return self._get(key, self._timeout)

    def _get(self, key, timeout):
        try:
            return _foreign.get(self._world(), "torch/" + key, timeout)
        except _library.Timeout as error:
            raise dist.DistStoreError(f"{key} was not set within {timeout:g} s: {error}") from None

    def wait(self, keys, timeout=None):
        for key in keys:
            self._get(key, self._timeout if timeout is None else timeout.total_seconds())

    def check(self, keys):
        try:
            for key in keys:
                _foreign.get(self._world(), "torch/" + key, 0)
        except _library.Timeout:
            return False
        return True

    def set_timeout(self, timeout):
        self._timeout = timeout.total_seconds()
