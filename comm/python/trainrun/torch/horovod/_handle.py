"""An operation that was started, as programs hold it."""
import time

from trainrun import _work
from trainrun.torch import _device
from trainrun.torch.horovod import _names, _timeline


class Handle:
    """`outputs` is what wait() gives, once `plan` has been carried out: at once if `now`. `words`: what all ranks must call
    alike (_names.described)."""

    def __init__(self, group, plan, outputs, kind, name, words="", now=False):
        self._outputs, self._started, self._words = outputs, None, words
        if number := _names.number_of(words):
            for call in plan.calls:
                call.name = number
        timeline, since = _timeline.recording(), time.monotonic_ns()

        def tell(begun, ended):
            timeline.operation(name, kind, since, begun, ended)

        self._on_device, self._tell = None, None
        if plan.device is not None:
            self._on_device = _device.devices_of(group).start(plan)
            if timeline is not None:
                self._tell = lambda: tell(since, time.monotonic_ns())
            if now:
                self.wait()
        elif now:
            with _names.told(words):
                _work.run(group._group, plan.calls)
            ended = time.monotonic_ns()
            plan.finish()
            if timeline is not None:
                tell(since, ended)
        elif plan.calls:
            self._started = _work.Started(group._group, plan.calls, plan, plan.finish, tell if timeline is not None else None)

    def only(self):
        """The result is the one output, not a list."""
        self._outputs = self._outputs[0]
        return self

    def ended(self):
        if self._on_device is not None:
            return self._on_device.ended()
        return self._started is None or self._started.ended()

    def wait(self):
        """On a GPU too until it is done, as Horovod does: so what it gives is right, or this raises."""
        if self._on_device is not None:
            self._on_device.wait()
            told, self._tell = self._tell, None
            if told is not None:
                told()
        if self._started is not None:
            with _names.told(self._words):
                self._started.wait()
        return self._outputs
