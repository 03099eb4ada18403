"""hvd.elastic.TorchState: models, optimizers and samplers, and how each is saved, put back and sent."""
import copy

import torch

from trainrun.torch.horovod import _place
from trainrun.torch.horovod._objects import broadcast_object, broadcast_optimizer_state, broadcast_parameters
from trainrun.torch.horovod._optimizer import Distributed
from trainrun.torch.horovod._sampler import ElasticSampler
from trainrun.torch.horovod.elastic import ObjectState


class StateHandler:
    """One object of a state; `root` is the rank whose state sync() gives to all."""

    root = 0

    def __init__(self, value):
        self.value = value

    def save(self):
        raise NotImplementedError

    def restore(self):
        raise NotImplementedError

    def sync(self):
        raise NotImplementedError

    def set_value(self, value):
        self.value = value
        self.save()


class _Copied(StateHandler):
    """What has a state_dict."""

    def __init__(self, value):
        super().__init__(value)
        self.save()

    def save(self):
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self):
        self.value.load_state_dict(copy.deepcopy(self._saved))  # an optimizer keeps what it loads


class ModelStateHandler(_Copied):
    def sync(self):
        broadcast_parameters(self.value.state_dict(), self.root)


class OptimizerStateHandler(_Copied):
    def sync(self):
        broadcast_optimizer_state(self.value, self.root)


class SamplerStateHandler(_Copied):
    def sync(self):
        self.value.load_state_dict(broadcast_object(self.value.state_dict(), self.root))


_registry = [(torch.nn.Module, ModelStateHandler), (torch.optim.Optimizer, OptimizerStateHandler), (ElasticSampler, SamplerStateHandler)]


def get_handler_registry():
    return _registry


def set_handler_registry(registry):
    """Pairs of a type and the class of its handler."""
    global _registry
    _registry = registry


class TorchState(ObjectState):
    """Modules, optimizers, ElasticSamplers, and values. Each is an attribute; one that is assigned is saved."""

    def __init__(self, model=None, optimizer=None, **kwargs):
        kwargs.update(model=model, optimizer=optimizer)
        handlers = {name: handler(value) for name, value in kwargs.items()
                    for handler in [next((one for kind, one in _registry if isinstance(value, kind)), None)] if handler}
        self._handlers = handlers
        for name, handler in handlers.items():
            object.__setattr__(self, name, handler.value)
        super().__init__(**{name: value for name, value in kwargs.items() if name not in handlers})

    def save(self):
        for handler in self._handlers.values():
            handler.save()
        super().save()

    def restore(self):
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def _enter(self):
        super()._enter()
        if _place.elastic_job():  # a rank without data calls join() alone, and the others need it for this
            for handler in self._handlers.values():
                if isinstance(handler.value, Distributed):
                    handler.value.meet()

    def sync(self):
        for handler in self._handlers.values():
            handler.root = self._root
            handler.sync()
        super().sync()

    def __setattr__(self, name, value):
        if name in self.__dict__.get("_handlers", {}):
            self._handlers[name].set_value(value)
        super().__setattr__(name, value)
