"""What torch gets for an operation that was started."""
import contextlib
import threading

import torch
from torch._C._distributed_c10d import Work

from trainrun import _work
from trainrun._library import Error, Invalid, Unsupported, timed_out
from trainrun.torch import _device

_torchs = Work.is_completed
_asked = threading.local()  # .answers: while _is_completed asks, the Pending that has heard it

ends = []  # how the world has ended, if it has, as calls and futures were told: of a future torch keeps the words alone


def _remember(error):
    if not ends and isinstance(error, Error) and not isinstance(error, (Invalid, Unsupported)):
        ends.append(error)


@contextlib.contextmanager
def remembering():
    try:
        yield
    except Error as error:
        _remember(error)
        raise


class Pending(Work):
    """`plan` is carried out, at once if it is to be waited for anyway; `result` is the future's value."""

    def __init__(self, group, plan, result, asynchronous):
        super().__init__()
        self._result, self._future, self._started = result, None, None
        if asynchronous:
            self._started = _work.Started(group, plan.calls, plan, plan.finish)
        else:
            with remembering():
                _work.run(group, plan.calls)
            plan.finish()

    def wait(self, timeout=None):
        """`timeout`: a timedelta; none, or not above 0: however long it takes. Raises what has become of it."""
        seconds = timeout.total_seconds() if timeout else 0
        with remembering():
            ended = self._started is None or self._started.wait(seconds if seconds > 0 else None)
        if not ended:
            raise timed_out(f"the operation has not ended within {seconds:g} s; it goes on")
        return True

    synchronize = wait

    def is_completed(self):
        return self._started is None or self._started.ended()

    def exception(self):
        return None if self._started is None else self._started.error()

    def is_success(self):
        return self.is_completed() and self.exception() is None

    def result(self):
        return self._result

    def get_future(self):
        if getattr(_asked, "answers", None) is not None:
            _asked.answers.append(self)
        if self._future is None:
            ended, result = torch.futures.Future(), self._result

            # Raised in here, an error is one for torch's C++ too, which Future.set_exception does not tell.
            def value(future):
                error = future.value()
                if error is not None:
                    _remember(error)
                    raise error
                return result
            self._future = ended.then(value)
            if self._started is None:
                ended.set_result(None)
            else:
                self._started.then(ended.set_result)
        return self._future


class PendingOnDevice(Work):
    """As torch's own of NCCL: who waits has its stream wait, and goes on. An error of the operation is raised by the next one."""

    def __init__(self, started, device, result):
        super().__init__()
        self._started, self._device, self._result, self._future = started, device, result, None

    def wait(self, _timeout=None):
        with remembering():
            self._started.hold()
        return True

    synchronize = wait

    def is_completed(self):
        return self._started.ended()

    def exception(self):
        return self._started.error()

    def is_success(self):
        return self.is_completed() and self.exception() is None

    def result(self):
        return self._result

    def get_future(self):
        if getattr(_asked, "answers", None) is not None:
            _asked.answers.append(self)
            return torch.futures.Future()  # nobody waits for it
        if self._future is None:
            ended, result, failures = _device.cuda.new_future(self._device), self._result, []

            def settle(lane, error):
                if error is None:
                    _device.cuda.enqueue(lane.stream, lambda: ended.set_result(result))
                else:
                    failures.append(error)
                    ended.set_result(None)

            def value(future):  # as Pending's, and behind the same stream as what `ended` was set to
                for error in failures:
                    _remember(error)
                    raise error
                return future.value()
            self._future = ended.then(value)
            self._started.then(settle)
        return self._future


def _is_completed(work):
    """torch gives the program a wrapper of its own, which asks a Pending for its future and not for this."""
    if _torchs(work):
        return True
    answers = _asked.answers = []
    try:
        work.get_future()
    except RuntimeError:  # of a backend without futures
        return False
    finally:
        _asked.answers = None  # nothing keeps a Pending, and with it tensors, alive
    return bool(answers) and answers[0].is_completed()


Work.is_completed = _is_completed
