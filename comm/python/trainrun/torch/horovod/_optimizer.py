"""An optimizer whose step begins with the gradients of all ranks.

Gradients travel in buckets, each as soon as all its gradients are computed and those before it are under way: so the order
is the plan's on every rank, whatever order their backward passes have. They have a group of ranks of their own, so that they
have no order with the operations that the program calls meanwhile.
"""
import contextlib
import hashlib
import warnings
import weakref

import torch

from trainrun._library import invalid
from trainrun.torch._foreign import unsupported
from trainrun.torch.horovod import _buckets, _join, _place
from trainrun.torch.horovod._compression import Compression
from trainrun.torch.horovod._objects import allgather_object
from trainrun.torch.horovod._operations import Average, op_of, start_allreduce
from trainrun.torch.horovod._sets import global_process_set

_TOO_OFTEN = ("Gradients were computed more than backward_passes_per_step times before call to step(). Increase "
              "backward_passes_per_step to accumulate gradients locally.")
_TOO_EARLY = ("optimizer.zero_grad() was called after loss.backward() but before optimizer.step() or optimizer.synchronize(). This is "
              "prohibited as it can cause a race condition.")
_TWICE = ("optimizer.step() called without optimizer.skip_synchronize() context after optimizer.synchronize(). This can cause "
          "training slowdown. You may want to consider using optimizer.skip_synchronize() context if you use "
          "optimizer.synchronize() in your code.")


def DistributedOptimizer(optimizer, named_parameters=None, compression=Compression.none, backward_passes_per_step=1, op=Average,
                         gradient_predivide_factor=1.0, num_groups=0, groups=None, sparse_as_dense=False,
                         process_set=global_process_set):
    """`optimizer` with the gradients of all ranks of `process_set`: combined by `op` while loss.backward() goes on, and there
    when step() begins, or after synchronize(). It has the class of `optimizer`, its state and its options. All ranks
    have the same parameters. Where a rank has computed no gradient for one, it gives zeros."""
    op = op_of(op)
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor not supported with op != Average")
    if backward_passes_per_step <= 0:
        raise ValueError("backward_passes_per_step must be > 0")
    if num_groups and groups is None:
        warnings.warn("Parameter `num_groups` has been replaced by `groups`", DeprecationWarning, stacklevel=2)
        groups = num_groups
    names = _names(optimizer, named_parameters)
    _check_groups(groups)
    kind = type(optimizer.__class__.__name__, (Distributed, optimizer.__class__), {})
    made = kind.__new__(kind)
    # A scheduler puts a `step` of the other one there.
    made.__dict__.update({name: value for name, value in optimizer.__dict__.items() if name != "step"})
    made._distribute(names, compression, backward_passes_per_step, op, gradient_predivide_factor, groups, sparse_as_dense, process_set)
    return made


def _names(optimizer, named_parameters):
    """The name of each parameter."""
    every = [(f"allreduce.noname.{i}.{j}", parameter) for i, group in enumerate(optimizer.param_groups)
             for j, parameter in enumerate(group["params"])]
    named = every if named_parameters is None else list(named_parameters)
    if any(not isinstance(item, tuple) for item in named):
        raise ValueError("named_parameters should be a sequence of tuples (name, parameter), usually produced by "
                         "model.named_parameters().")
    names = [name for name, _ in named]
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) != len(names) else []
    if twice:
        raise ValueError(f"Parameter names in named_parameters must be unique. Found duplicates: {', '.join(twice)}")
    known = {parameter: name for name, parameter in named}
    unnamed = [parameter for _, parameter in every if parameter not in known]
    if unnamed:
        raise ValueError("named_parameters was specified, but one or more model parameters were not named. They are of these shapes: " +
                         ", ".join(str(tuple(parameter.shape)) for parameter in unnamed))
    return known


def _check_groups(groups):
    if groups is None:
        return
    if not isinstance(groups, list):
        if not isinstance(groups, int) or groups <= 0:
            raise ValueError("groups should be a non-negative integer or a list of list of torch.Tensor.")
        return
    parameters = [parameter for group in groups for parameter in group]
    if any(not isinstance(parameter, torch.Tensor) for parameter in parameters):
        raise ValueError("groups must consist of torch.Tensor.")
    if len(set(parameters)) != len(parameters):
        raise ValueError("A parameter can only appear once in groups.")


def _telling(optimizer, parameter):
    """A hook, which torch keeps as long as the parameter; so it does not keep the optimizer."""
    def tell(*_):
        if (alive := optimizer()) is not None:
            alive._computed(parameter)
    return tell


class Distributed:
    """Comes before the class of an optimizer."""

    def _distribute(self, names, compression, passes, op, predivide, groups, sparse_as_dense, process_set):
        self._parameter_names, self._compression, self.backward_passes_per_step = names, compression, passes
        self.op, self.process_set, self._sparse_as_dense = op, process_set, sparse_as_dense
        self._factors = (1 / predivide, predivide)
        self._synchronized, self._should_synchronize = False, True
        self._group, self._generation = None, None
        parameters = [parameter for group in self.param_groups for parameter in group["params"] if parameter.requires_grad]
        # What a compressor of the program's makes of a tensor may depend on its shape.
        alone = compression not in (Compression.none, Compression.fp16, Compression.bf16)
        self._plan = _buckets.plan(parameters, groups, alone)
        self._left = {parameter: passes for parameter in parameters}
        self._buckets, self._bucket_of, self._next, self._accumulators = [], {}, 0, []
        if process_set.included() and (process_set.size() > 1 or _place.elastic_job()):
            self._prepare()

    def _prepare(self):
        for number, parameters in enumerate(self._plan):
            self._buckets.append(_buckets.Bucket(parameters))
            self._bucket_of.update((parameter, number) for parameter in parameters)
        for parameter in self._left:
            accumulator = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
            accumulator.register_hook(_telling(weakref.ref(self), parameter))
            self._accumulators.append(accumulator)  # torch itself lets go of it, and of the hook
        if not _place.elastic_job():  # else ranks that come later would call what those that were here have called
            self.meet()

    # ---- the ranks

    def _current(self):
        """Whether the group is one of the world of now."""
        return self._group is not None and _place.met() is not None and _place.met().generation == self._generation

    def meet(self):
        """The group, in which all have the same plan. All ranks call it at the same point."""
        if self._current() or not self._buckets:
            return
        self._forget_step()
        world = _place.world()
        self._generation, self._group = world.generation, world.group(self.process_set.ranks)
        ranks, unused = self.process_set.ranks, _join.unused(self.process_set.ranks)
        _join.joins(ranks, self._group, self)
        mine = [[self._parameter_names[parameter], list(parameter.shape), str(parameter.dtype)]
                for bucket in self._buckets for parameter in bucket.parameters]
        digest = hashlib.sha256(str(mine).encode()).hexdigest()
        told = allgather_object([digest, unused], process_set=self.process_set)
        if any(other != digest for other, _ in told):
            every = allgather_object(mine, process_set=self.process_set)
            raise invalid(_difference(every, ranks))
        _join.leave(ranks, set(unused).intersection(*(theirs for _, theirs in told)))

    # ---- a step

    def _forget_step(self):
        self._left = dict.fromkeys(self._left, self.backward_passes_per_step)
        self._next = 0
        for bucket in self._buckets:
            bucket.empty()

    def _begun(self):
        return any(left != self.backward_passes_per_step for left in self._left.values())

    def _computed(self, parameter):
        """Its gradient was, in a backward pass."""
        if self._group is not None and not self._current():  # what is left of a step in a world that is over
            self._group = None
            self._forget_step()
        if self._left[parameter] <= 0:
            raise AssertionError(_TOO_OFTEN)
        self._left[parameter] -= 1
        if self._left[parameter]:
            return
        if parameter.grad.is_sparse and not self._sparse_as_dense:
            raise unsupported(f"the gradient of {self._parameter_names[parameter]} is sparse: that is not in trainrun.torch; try: "
                              "DistributedOptimizer(sparse_as_dense=True)")
        bucket = self._buckets[self._bucket_of[parameter]]
        bucket.take(parameter)
        bucket.missing -= 1
        self._send_what_is_full()

    def _send_what_is_full(self):
        while self._current() and self._next < len(self._buckets) and self._buckets[self._next].missing == 0:
            self._send(self._buckets[self._next])
            self._next += 1

    def _send(self, bucket):
        shaped = bucket.shaped()
        wire, context = self._compression.compress(shaped)
        name = self._parameter_names[bucket.parameters[0]] + (f" and {len(bucket.parameters) - 1} more" if len(bucket.parameters) > 1 else "")
        bucket.journey = start_allreduce(self._group, [wire], [wire], self.op, *self._factors, name).only(), wire, context, shaped

    def synchronize(self):
        """Until the gradients of all ranks are there, which p.grad is then. All ranks call it."""
        if self._buckets and self.process_set.size() > 1:
            self.meet()
            for bucket in self._buckets[self._next:]:
                for parameter in bucket.parameters:
                    if self._left[parameter] > 0:
                        bucket.take(parameter)
                self._send(bucket)
            for bucket in self._buckets:
                handle, wire, context, shaped = bucket.journey
                handle.wait()
                reduced = self._compression.decompress(wire, context)
                if reduced.data_ptr() != shaped.data_ptr():
                    shaped.copy_(reduced)
                for parameter in bucket.parameters:  # which the program may have given another one meanwhile
                    bucket.give(parameter)
        self._forget_step()
        self._synchronized = True

    @contextlib.contextmanager
    def skip_synchronize(self):
        """For a step() behind a synchronize(), between which the gradients were changed."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def step(self, closure=None):
        if self._should_synchronize:
            if self._synchronized:
                warnings.warn(_TWICE, stacklevel=2)
            self.synchronize()
        self._synchronized = False
        return super().step(closure)

    def zero_grad(self, *args, **kwargs):
        if self._buckets and self._begun():
            raise AssertionError(_TOO_EARLY)
        return super().zero_grad(*args, **kwargs)

    def add_param_group(self, group):
        super().add_param_group(group)
        warnings.warn("the gradients of parameters that are added to a DistributedOptimizer are not exchanged between ranks; try: add "
                      "them to the optimizer before it is wrapped", stacklevel=2)

    def set_backward_passes_per_step(self, passes):
        self.backward_passes_per_step = passes
        self._forget_step()

    def load_state_dict(self, *args, **kwargs):
        self._synchronized, self._should_synchronize = False, True
        self._forget_step()
        return super().load_state_dict(*args, **kwargs)


def _difference(every, ranks):
    """What two of them have differently."""
    first = every[0]
    for rank, other in zip(ranks, every):
        for number in range(max(len(first), len(other))):
            ours, theirs = (one[number] if number < len(one) else None for one in (first, other))
            if ours != theirs:
                words = ["no more" if one is None else f"{one[0]} of shape {tuple(one[1])} and type {one[2]}" for one in (ours, theirs)]
                return (f"the parameters of DistributedOptimizer differ: as number {number} in the order of their gradients, rank "
                        f"{ranks[0]} has {words[0]}, rank {rank} has {words[1]}")
    return "the parameters of DistributedOptimizer differ"
