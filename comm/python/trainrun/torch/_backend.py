"""The operations of torch.distributed, by trainrun's. Each has the name that torch calls it by, today and before 2.15.

Of each that torch calls asynchronous the library's threads do the work, in the order of the calls; none takes Python's lock.
"""
import contextlib
import math

from torch._C._distributed_c10d import Backend

from trainrun import _work
from trainrun._library import Invalid, Timeout, timed_out
from trainrun.torch import _device
from trainrun.torch._foreign import unsupported
from trainrun.torch._pending import Pending, PendingOnDevice, remembering
from trainrun.torch._plan import Plan, op_of


def group_of(world, ranks, store, timeout):
    """Of some of its ranks, which all call it."""
    if ranks != sorted(ranks):
        raise unsupported(f"the backend trainrun numbers the ranks of a group in ascending order, not as {ranks}")
    with remembering():
        group = world.group(ranks)
    return TrainrunBackend(world, group, ranks, store, timeout)


def _value_of(output_lists):
    """Of the future, as torch's own have it: of one list its tensors."""
    return list(output_lists[0]) if len(output_lists) == 1 else [list(outputs) for outputs in output_lists]


class TrainrunBackend(Backend):
    def __init__(self, world, group, ranks, store, timeout):
        """`group` is of these ranks of the world, or the world itself."""
        self._own, self._all = ranks.index(world.rank), len(ranks)
        super().__init__(self._own, self._all)
        self._world, self._group_of_ranks, self._ranks, self._store, self._timeout = world, group, ranks, store, timeout
        self._devices = _device.devices_of(group)
        self._barriers = 0
        self._operations = 0  # of all ranks, begun here

    def getBackendName(self):
        return "trainrun"

    @property
    def options(self):
        return Backend.Options("trainrun", timeout=self._timeout)

    # Those of torch 2.15 ask its subclass, that is themselves, without end.
    supports_coalescing = supports_shrinking = supports_reconfigure = property(lambda _: False)
    supports_window = _supports_time_estimate = property(lambda _: False)
    supports_splitting = property(lambda _: True)

    # Of TORCH_DISTRIBUTED_DEBUG=DETAIL, which compares them between the ranks.
    def _get_sequence_number_for_group(self):
        return self._operations

    def _set_sequence_number_for_group(self):
        pass  # they begin with 0 everywhere

    def split(self, store, ranks, opts):
        if self._own not in ranks:  # nothing, but torch 2.15 crashes on None
            raise unsupported("split_group on a rank that is in none of the lists is not in the backend trainrun; try: new_group(ranks)")
        return group_of(self._world, [self._ranks[rank] for rank in ranks], store, opts._timeout if opts else self._timeout)

    def _plan(self):
        return Plan(self._all)

    def _go(self, plan, result, opts=None):
        self._operations += 1
        asynchronous = getattr(opts, "asyncOp", True)
        if plan.device is not None:
            with remembering():
                started = self._devices.start(plan)
                if not asynchronous:
                    started.hold()
            return PendingOnDevice(started, plan.device, result)
        return Pending(self._group_of_ranks._group, plan, result, asynchronous)

    def eager_connect_single_device(self, device):
        """Of init_process_group(device_id=...): all ranks call it, and the first operation need not wait for NCCL."""
        self._devices.open(device)

    # Torch's default says nothing of the operation: so it is a sum.
    def allreduce(self, tensors, opts=None):
        plan, op = self._plan(), op_of(opts.reduceOp) if opts is not None else 0
        for tensor in tensors:
            own = plan.got(tensor)
            plan.reduction(_work.ALLREDUCE, own, own, own.numel(), op)
        return self._go(plan, list(tensors), opts)

    allreduce_coalesced = allreduce

    def reduce(self, tensors, opts):
        plan, root, op = self._plan(), opts.rootRank, op_of(opts.reduceOp)
        for tensor in tensors:
            own = plan.got(tensor) if root == self._own else plan.given(tensor)
            plan.reduction(_work.REDUCE, own, own if root == self._own else None, own.numel(), op, root)
        return self._go(plan, list(tensors), opts)

    def broadcast(self, tensors, opts):
        plan = self._plan()
        for tensor in tensors:
            own = plan.got(tensor)
            plan.move(_work.BROADCAST, None, own, own.numel(), opts.rootRank)
        return self._go(plan, list(tensors), opts)

    def allgather(self, output_lists, inputs, opts=None):
        plan = self._plan()
        for outputs, tensor in zip(output_lists, inputs):
            self._gather_to_all(plan, outputs, tensor)
        return self._go(plan, _value_of(output_lists), opts)

    def allgather_coalesced(self, output_lists, inputs, opts=None):
        plan = self._plan()
        for i, tensor in enumerate(inputs):
            self._gather_to_all(plan, [outputs[i] for outputs in output_lists], tensor)
        return self._go(plan, [list(outputs) for outputs in output_lists], opts)

    def _gather_to_all(self, plan, outputs, tensor):
        own, counts = plan.given(tensor), [output.numel() for output in outputs]
        plan.must_fit("the list of outputs", len(outputs), self._all)
        plan.must_fit("the own output", counts[self._own], own.numel())
        if len(set(counts)) == 1:
            plan.move(_work.ALLGATHER, own, plan.apart(outputs), own.numel())
        else:
            plan.move(_work.ALLGATHERV, own, plan.apart(outputs), 0, out_counts=counts)

    def all_gather_single(self, output, tensor, opts=None):
        return self.all_gather_single_coalesced([output], [tensor], opts)

    def all_gather_single_coalesced(self, outputs, inputs, opts=None):
        plan = self._plan()
        for output, tensor in zip(outputs, inputs):
            plan.must_fit("the output", output.numel(), tensor.numel() * self._all)
            plan.move(_work.ALLGATHER, plan.given(tensor), plan.got(output), tensor.numel())
        return self._go(plan, list(outputs), opts)

    _allgather_base, allgather_into_tensor_coalesced = all_gather_single, all_gather_single_coalesced

    def gather(self, output_lists, inputs, opts):
        plan = self._plan()
        for i, tensor in enumerate(inputs):
            to = plan.apart(output_lists[i]) if opts.rootRank == self._own else None
            if to is not None:
                plan.must_fit("the list of outputs", to.numel(), tensor.numel() * self._all)
            plan.move(_work.GATHER, plan.given(tensor), to, tensor.numel(), opts.rootRank)
        return self._go(plan, _value_of(output_lists), opts)

    def gather_single(self, output, tensor, opts):
        plan, to = self._plan(), None
        if opts.rootRank == self._own:
            plan.must_fit("the output", output.numel(), tensor.numel() * self._all)
            to = plan.got(output)
        plan.move(_work.GATHER, plan.given(tensor), to, tensor.numel(), opts.rootRank)
        return self._go(plan, [output], opts)

    gather_into_tensor = gather_single

    def scatter(self, outputs, input_lists, opts):
        plan = self._plan()
        for i, output in enumerate(outputs):
            own = plan.joined(input_lists[i]) if opts.rootRank == self._own else None
            if own is not None:
                plan.must_fit("the list of inputs", own.numel(), output.numel() * self._all)
            plan.move(_work.SCATTER, own, plan.got(output), output.numel(), opts.rootRank)
        return self._go(plan, list(outputs), opts)

    def reduce_scatter(self, outputs, input_lists, opts):
        plan, op = self._plan(), op_of(opts.reduceOp)
        for output, inputs in zip(outputs, input_lists):
            if {tensor.numel() for tensor in inputs} != {output.numel()}:
                raise unsupported("reduce_scatter of tensors of different lengths is not in the backend trainrun")
            plan.must_fit("the list of inputs", len(inputs), self._all)
            plan.reduction(_work.REDUCE_SCATTER, plan.joined(inputs), plan.got(output), output.numel(), op)
        return self._go(plan, list(outputs), opts)

    def reduce_scatter_single(self, output, tensor, opts):
        return self.reduce_scatter_single_coalesced([output], [tensor], opts)

    def reduce_scatter_single_coalesced(self, outputs, inputs, opts):
        plan, op = self._plan(), op_of(opts.reduceOp)
        for output, tensor in zip(outputs, inputs):
            plan.must_fit("the input", tensor.numel(), output.numel() * self._all)
            plan.reduction(_work.REDUCE_SCATTER, plan.given(tensor), plan.got(output), output.numel(), op)
        return self._go(plan, list(outputs), opts)

    _reduce_scatter_base, reduce_scatter_tensor_coalesced = reduce_scatter_single, reduce_scatter_single_coalesced

    def all_to_all_single(self, output, tensor, output_splits, input_splits, opts=None):
        plan = self._plan()
        own, to = plan.given(tensor), plan.got(output)
        if own.data_ptr() == to.data_ptr():
            own = plan.given(tensor.clone())
        gets, gives = self._rows(output, output_splits), self._rows(tensor, input_splits)
        if output_splits or input_splits:
            plan.move(_work.ALLTOALLV, own, to, 0, in_counts=gives, out_counts=gets)
        else:
            plan.must_fit("the output", to.numel(), own.numel())
            plan.move(_work.ALLTOALL, own, to, gives[0])
        return self._go(plan, [output], opts)

    alltoall_base = all_to_all_single

    def _rows(self, tensor, splits):
        """Elements to or from each rank."""
        rows = tensor.shape[0] if tensor.dim() else 1
        if not splits:
            if rows % self._all:
                raise ValueError(f"{rows} rows cannot be split among {self._all} ranks")
            return [tensor.numel() // self._all] * self._all
        if len(splits) != self._all or sum(splits) != rows:
            raise ValueError(f"splits {list(splits)} of {rows} rows among {self._all} ranks")
        return [split * math.prod(tensor.shape[1:]) for split in splits]

    def alltoall(self, outputs, inputs, opts=None):
        plan = self._plan()
        plan.must_fit("the list of outputs", len(outputs), self._all)
        plan.must_fit("the list of inputs", len(inputs), self._all)
        plan.move(_work.ALLTOALLV, plan.joined(inputs), plan.apart(outputs), 0, in_counts=[tensor.numel() for tensor in inputs],
                  out_counts=[tensor.numel() for tensor in outputs])
        return self._go(plan, list(outputs), opts)

    def barrier(self, opts=None):
        with remembering():
            self._devices.settle()
        plan = self._plan()
        plan.calls.append(_work.call(_work.BARRIER))
        return self._go(plan, [], opts)

    def monitored_barrier(self, opts, _wait_all_ranks=False):
        """Names all ranks that have not come, in any case: each puts down which of these barriers it has come to."""
        self._barriers += 1
        place = lambda rank: f"trainrun/monitored_barrier/{rank}"
        self._store.set(place(self._own), str(self._barriers))
        try:
            self.barrier().wait(opts.timeout)
        except Timeout:
            missing = [self._ranks[rank] for rank in range(self._all)
                       if not self._store.check([place(rank)]) or int(self._store.get(place(rank))) < self._barriers]
            if not missing:
                raise
            late = f"rank {missing[0]} has" if len(missing) == 1 else f"ranks {', '.join(map(str, missing))} have"
            raise timed_out(f"monitored_barrier: {late} not come within {opts.timeout.total_seconds():g} s", missing) from None

    def send(self, tensors, dst, tag=0):
        return self._hand_over(_work.SEND, tensors, dst, tag)

    def recv(self, tensors, src, tag=0):
        return self._hand_over(_work.RECV, tensors, src, tag)

    def _hand_over(self, kind, tensors, other, tag):
        if tag != 0:
            raise unsupported("send and recv with a tag are not in the backend trainrun: what one rank sends to another arrives in order")
        plan = self._plan()
        for tensor in tensors:
            own, to = (plan.given(tensor), None) if kind == _work.SEND else (None, plan.got(tensor))
            plan.move(kind, own, to, tensor.numel(), other)
        if plan.device is None:
            return Pending(self._group_of_ranks._group, plan, list(tensors), True)
        for call in plan.calls:
            call.root = int(self._own < other)  # the number of the other one among the two
        giver, taker = (self._own, other) if kind == _work.SEND else (other, self._own)
        return PendingOnDevice(self._devices.hand_over(plan, giver, taker), plan.device, list(tensors))

    def recv_anysource(self, _tensors, _tag=0):
        raise unsupported("recv from any rank is not in the backend trainrun: name the source")

    def allreduce_sparse(self, _tensors, _opts=None):
        raise unsupported("allreduce of sparse tensors is not in the backend trainrun")

    def shutdown(self):
        """No rank waits for another here. The group of all ends with the world, at the end of the process; so do those on devices."""
        self._devices.end()
        if self._group_of_ranks is not self._world:
            with contextlib.suppress(Invalid):  # it has ended, with its world or by another call of this
                self._group_of_ranks.leave()
