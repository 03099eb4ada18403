"""What a training must not lose: objects with a state_dict, and values."""
import array
import contextlib
import hashlib
import json
import time

import torch

from trainrun import _library
from trainrun._library import HostsUpdated, check, invalid, lib
from trainrun.elastic import must_be_free
from trainrun.torch._foreign import unsupported
from trainrun.torch._pack import as_bytes, memory_of, pack, room_for, unpack
from trainrun.torch._probe import INSTEAD
from trainrun.torch._sampler import DistributedSampler
from trainrun.torch._wire import exchange, send_tensors, send_text

_SCALERS = getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler  # its base where there is one
LOOK_EVERY = 0.25  # seconds, about: at this distance all ranks ask each other whether hosts will change
LOOK_AT_LEAST = 1000  # steps


class State:
    """`parts`: modules, optimizers, schedulers, samplers, whatever has state_dict and load_state_dict; the others are
    values: numbers, strings, lists, dicts, tensors. All ranks have the same names.

    live: after a failure the training goes on from what the survivor with the most optimizer steps has in memory.
    live=False: from the last commit(), which keeps a copy of everything.
    """

    def __init__(self, live=True, **parts):
        if live not in (True, False):
            raise invalid(f"live is True or False, not {live!r}: a part of the state needs another name")
        for name in parts:
            must_be_free(State, name)
        objects = {name: part for name, part in parts.items() if hasattr(part, "state_dict") and hasattr(part, "load_state_dict")}
        values = {name: part for name, part in parts.items() if name not in objects}
        pack(values, [], "state")
        self.__dict__.update(_live=live, _objects=objects, _values=values, _samplers=[], _callbacks=[], _membership=None,
                             _seasoned=False, _version=0, _snapshot=None, _steps=0)
        for name, part in objects.items():
            _refuse(name, part)
            if live and isinstance(part, torch.optim.LBFGS):
                raise unsupported(f"{name} is an LBFGS, which changes parameters several times in one step(): after a failure a live state "
                                  "would go on in the middle of it; try: State(live=False, ...), with commit()")
            if isinstance(part, DistributedSampler):
                self._samplers.append(part)
            elif isinstance(part, torch.optim.Optimizer):
                part.register_step_post_hook(self._optimizer_stepped)

    def __getattr__(self, name):
        for kind in ("_objects", "_values"):
            if name in self.__dict__[kind]:
                return self.__dict__[kind][name]
        raise AttributeError(name)

    def __setattr__(self, name, value):
        must_be_free(State, name)
        if name in self._objects:
            raise invalid(f"the state's {name} cannot be replaced: what has a state_dict stays the same object")
        pack(value, [], f"state[{name!r}]")  # what cannot travel is refused here, and not after the first failure
        self._values[name] = value

    @property
    def steps(self):
        """How many were completed."""
        return self._steps

    @property
    def world(self):
        """rank, size, local_rank, generation of now."""
        return self._of().world

    def on_reset(self, callback):
        """callback(old_size, new_size) in each new world but the first, before the state is synchronised: on those that were in
        a world before."""
        self._callbacks.append(callback)

    # ---- in the function that run() calls

    def step(self, samples=0):
        """Right behind optimizer.step(): a step is complete, in which this rank has used so many samples of the state's
        sampler. Raises HostsUpdated, which run() understands, when hosts come or go: what follows it is left out then, so
        a save or a scheduler's step stands before it."""
        membership = self._of()
        self.__dict__["_steps"] += 1
        self.__dict__["_version"] += 1
        if samples:
            if len(self._samplers) != 1:
                instead = "record() of each, and step()" if self._samplers else "step(), or give the State its sampler"
                raise invalid(f"step({samples}) is for a state with one sampler, and this one has {len(self._samplers)}: call "
                              f"{instead}")
            self._samplers[0].record(samples)
        membership.progressed(self._steps)
        if self._live:
            self._look_now_and_then(membership.world)

    def commit(self):
        """With live=False: the point to which a failure leads back. Raises HostsUpdated as step() does."""
        if self._live:
            raise invalid("commit() is for a State(live=False, ...): a live one goes on from where the survivors are")
        world = self._of().world
        self.__dict__["_version"] += 1
        self._save()
        check(lib.trc_check_host_updates(world._alive()))

    def should_stop(self):
        """This rank has heard that it is to go."""
        return bool(lib.trc_should_stop(self._of().world._alive()))

    @contextlib.contextmanager
    def pause(self):
        """For validation, checkpoints and whatever else takes time without a step: --hang-timeout does not count it."""
        membership = self._of()
        membership.pause(True)
        try:
            yield
        finally:
            membership.pause(False)

    # ---- of run()

    def _enter(self, membership, old_size):
        self.__dict__["_membership"] = membership
        # Before the state is given to those that are new and call none: what the callbacks change is a part of it.
        if old_size:
            for callback in self._callbacks:
                callback(old_size, membership.world.size)
        self._sync(membership.world)
        for sampler in self._samplers:
            sampler.begin()
        self.__dict__.update(_until_look=1, _look_gap=1, _looked=time.monotonic(), _looked_at=self._steps)

    def _leave(self, failed):
        """What a step that was not completed has left behind goes."""
        for part in self._objects.values():
            for parameter in part.parameters() if isinstance(part, torch.nn.Module) else ():
                parameter.grad = None
            if isinstance(part, _SCALERS):
                part._per_optimizer_states.clear()  # which gradients are unscaled already
        if failed and self._snapshot is not None:
            self._load(*self._snapshot)

    def _of(self):
        if self._membership is None:
            raise invalid("the state is in no world yet: step(), commit() and pause() are for the function that run() calls")
        return self._membership

    def _optimizer_stepped(self, *_):
        self.__dict__["_version"] += 1

    def _look_now_and_then(self, world):
        self.__dict__["_until_look"] -= 1
        if self._until_look > 0:
            return
        now = time.monotonic()
        done, took = self._steps - self._looked_at, now - self._looked
        steps = steps_until_look(done, took, self._look_gap)
        # All ranks look after as many steps, those of the slowest clock.
        gap = world.allreduce(array.array("q", [steps]), "max")[0]
        self.__dict__.update(_until_look=gap, _look_gap=gap, _looked=now, _looked_at=self._steps)
        check(lib.trc_check_host_updates(world._alive()))

    def _pack(self):
        """(JSON, tensors) of everything."""
        tensors = []
        packed = {"values": pack(self._values, tensors, "state"), "steps": self._steps}
        for name, part in self._objects.items():
            packed["of " + name] = pack(part.state_dict(), tensors, f"the state of {name}")
        return json.dumps(packed, sort_keys=True), tensors

    def _digest(self, text):
        """Of all but what modules and optimizers hold in tensors, whose age the version tells."""
        digest, tensors = hashlib.sha256(text.encode()), []
        pack(self._values, tensors, "state")
        for tensor in tensors:
            digest.update(memory_of(as_bytes(tensor.cpu().contiguous())))
        return digest.hexdigest()

    def _load(self, text, tensors):
        packed = json.loads(text)
        self._values.clear()
        self._values.update(unpack(packed["values"], tensors))
        self.__dict__["_steps"] = packed["steps"]
        for name, part in self._objects.items():
            part.load_state_dict(unpack(packed["of " + name], tensors))

    def _save(self):
        text, tensors = self._pack()
        self.__dict__["_snapshot"] = (text, [tensor.cpu().clone() for tensor in tensors])

    def _sync(self, world):
        """All ranks get what one of them has: one that was in a world before, with the highest version. Nothing moves
        if there is no difference."""
        text, tensors = self._pack()
        every = exchange(world, {"names": sorted(self._objects) + ["live" if self._live else "commits"], "seasoned": self._seasoned,
                                 "version": self._version, "digest": self._digest(text)})
        source = max(range(world.size), key=lambda rank: (every[rank]["seasoned"], every[rank]["version"], -rank))
        chosen = every[source]
        for rank, other in enumerate(every):
            if other["names"] != chosen["names"]:
                raise invalid(f"the states differ: rank {source} has {', '.join(chosen['names'])}; rank {rank} has "
                              f"{', '.join(other['names'])}")
        if any(other != chosen for other in every) or not chosen["seasoned"]:
            text = send_text(world, text, source)
            if world.rank != source:
                tensors = room_for(json.loads(text))
            send_tensors(world, tensors, source)
            if world.rank != source:
                self._load(text, tensors)
        self.__dict__.update(_seasoned=True, _version=chosen["version"])
        if not self._live:
            self._save()


def steps_until_look(done, took, gap):
    """After so many steps in so many seconds; `gap` steps lay before this look. At most twice as many lie before the
    next: a world's first steps say little of how long one takes, since what a program does behind step() is not in them."""
    steps = int(done * LOOK_EVERY / took) if took > 0 else LOOK_AT_LEAST
    return max(min(steps, 2 * gap, LOOK_AT_LEAST), 1)


def _refuse(name, part):
    kind = type(part).__name__
    if kind in ("DistributedDataParallel", "FullyShardedDataParallel") and isinstance(part, torch.nn.Module):
        what = "the module itself, and wrap it at the beginning of the function" if kind.startswith("Dist") else f"a module; {INSTEAD}"
        raise unsupported(f"{name} is a {kind}, which does not outlive its world: give State {what}")
    for word, parameter in part.named_parameters() if isinstance(part, torch.nn.Module) else ():
        if type(parameter.data).__name__ == "DTensor" or type(parameter).__name__ == "DTensor":
            raise unsupported(f"{name}.{word} is a DTensor (FSDP, tensor parallelism), of which no rank has the whole; {INSTEAD}")
