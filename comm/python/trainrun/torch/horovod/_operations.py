"""Collective operations that are started: *_async, which give a Handle, and what waits for one.

All ranks of a process set call the same operations in the same order: names do not bring together what ranks call in
different orders, as Horovod's do. Where they differ, all ranks raise trainrun.Mismatch; operations without names that are of equal
kind, type and shape are not told apart. Operations of different sets have no order.
"""
import math
import warnings

import torch

from trainrun import _work
from trainrun.torch._foreign import unsupported
from trainrun.torch._plan import Plan
from trainrun.torch.horovod import _sets
from trainrun.torch.horovod._handle import Handle
from trainrun.torch.horovod._names import described, named, number_of, told

Average, Sum, Adasum, Min, Max, Product = range(6)
_OPS = {Average: 1, Sum: 0, Min: 2, Max: 3, Product: 4}
_FUSED = 64 << 10  # bytes: smaller tensors of a grouped operation travel together


def op_of(op, average=None):
    """`average` is what old programs give instead of `op`."""
    if average is not None:
        if op is not None:
            raise ValueError("The op parameter supersedes average. Please provide only one of them.")
        warnings.warn("Parameter `average` has been replaced with `op`", DeprecationWarning, stacklevel=3)
        op = Average if average else Sum
    op = Average if op is None else op
    if op == Adasum:
        raise unsupported("hvd.Adasum is not in trainrun.torch; try: op=hvd.Average, with a learning rate for hvd.size() ranks")
    if op not in _OPS:
        raise ValueError(f"{op!r} is no reduction: hvd.Average, Sum, Min, Max and Product are")
    return op


def _dense(tensor):
    if tensor.layout != torch.strided:
        raise unsupported(f"an operation on a tensor of layout {tensor.layout} is not in trainrun.torch: make it dense, or "
                          "give DistributedOptimizer sparse_as_dense=True")
    return tensor


def _scaled(tensor, factor):
    if factor == 1:
        return tensor  # through float64 large integers would be rounded
    return (tensor.to(torch.complex128 if tensor.is_complex() else torch.float64) * factor).to(tensor.dtype)


def _scaling(before, after):
    return "" if before == 1 and after == 1 else f"scaled by {float(before)} before and {float(after)} after"


def _reduce(plan, kind, give, get, count, op, before, after):
    """The library multiplies floats of the processor; integers are multiplied here, and cut towards zero, as Horovod does, and what is
    on a GPU, 16-bit floats of it in 32 bits, as the library does."""
    if (before == 1 and after == 1) or (give.is_floating_point() and plan.device is None):
        factors = {} if before == 1 and after == 1 else {"before": before, "after": after}
        return plan.reduction(kind, give, get, count, _OPS[op], **factors)
    if give.dtype in (torch.float16, torch.bfloat16):
        wide = plan.given(torch.empty_like(get, dtype=torch.float32))
        plan.reduction(kind, plan.given(give.float() * before), wide, count, _OPS[op])
        return plan.then(lambda: get.copy_(wide * after))
    plan.reduction(kind, plan.given(_scaled(give, before)), get, count, _OPS[op])
    return plan.then(lambda: get.copy_(_scaled(get, after)))


def start_allreduce(group, tensors, outputs, op, before, after, name, now=False):
    """Of a list; `now`: waits in this thread, which saves a change of threads."""
    plan, small = Plan(group.size), {}
    for tensor, output in zip(tensors, outputs):
        if len(tensors) > 1 and _dense(tensor).numel() * tensor.element_size() < _FUSED:
            small.setdefault(tensor.dtype, []).append((tensor, output))
        else:
            own = plan.got(output)
            _reduce(plan, _work.ALLREDUCE, own if tensor is output else plan.given(_dense(tensor)), own, own.numel(), op, before, after)
    for pairs in small.values():
        flat = plan.apart([output for _, output in pairs])
        _reduce(plan, _work.ALLREDUCE, plan.joined([tensor for tensor, _ in pairs]), flat, flat.numel(), op, before, after)
    return Handle(group, plan, outputs, "ALLREDUCE", name, described(name, tensors, more=_scaling(before, after)), now)


def _like(tensor):
    return torch.empty_like(_dense(tensor), memory_format=torch.contiguous_format, requires_grad=False)


def allreduce_async(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                    process_set=_sets.global_process_set):
    op, name = op_of(op, average), named(name, "allreduce")
    return start_allreduce(_sets.group_of(process_set), [tensor], [_like(tensor)], op, prescale_factor, postscale_factor, name).only()


def allreduce_async_(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                     process_set=_sets.global_process_set):
    """In place."""
    op, name = op_of(op, average), named(name, "allreduce")
    return start_allreduce(_sets.group_of(process_set), [tensor], [tensor], op, prescale_factor, postscale_factor, name).only()


def grouped_allreduce_async(tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                            process_set=_sets.global_process_set):
    op, name, tensors = op_of(op, average), named(name, "grouped_allreduce"), list(tensors)
    return start_allreduce(_sets.group_of(process_set), tensors, [_like(tensor) for tensor in tensors], op, prescale_factor,
                           postscale_factor, name)


def grouped_allreduce_async_(tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                             process_set=_sets.global_process_set):
    """In place."""
    op, name, tensors = op_of(op, average), named(name, "grouped_allreduce"), list(tensors)
    return start_allreduce(_sets.group_of(process_set), tensors, tensors, op, prescale_factor, postscale_factor, name)


def sparse_allreduce_async(tensor, name=None, op=None, process_set=_sets.global_process_set):
    raise unsupported("hvd.sparse_allreduce_async is not in trainrun.torch: make the tensor dense, or give DistributedOptimizer "
                      "sparse_as_dense=True")


def told_by_all(group, numbers, words):
    """The same numbers of each rank, after all operations that were started before."""
    own = torch.tensor(numbers, dtype=torch.int64, device="cpu")
    every = torch.empty(group.size * len(numbers), dtype=torch.int64, device="cpu")
    plan = Plan(group.size)
    plan.move(_work.ALLGATHER, own, every, len(numbers))
    plan.calls[0].name = number_of(words)
    with told(words):
        _work.run(group._group, plan.calls)
    return every.view(group.size, len(numbers)).tolist()


def _rows(tensor, what):
    if _dense(tensor).dim() == 0:
        raise ValueError(f"{what} of a tensor without dimensions: its first one is what ranks share; try: tensor.reshape(1)")
    return tensor.shape[0]


def _row(tensor):
    """Elements of one row."""
    return math.prod(tensor.shape[1:])


def _must_have_rows_of(every, group, what):
    for rank, size in enumerate(every):
        if size != every[group.rank]:
            raise ValueError(f"{what}: rank {rank} has rows of {size} elements, rank {group.rank} of {every[group.rank]}; only the first "
                             "dimensions may differ")


def allgather_async(tensor, name=None, process_set=_sets.global_process_set):
    """Ranks may differ in the first dimension. How long the others' are is asked before this returns."""
    return grouped_allgather_async([tensor], named(name, "allgather"), process_set).only()


def grouped_allgather_async(tensors, name=None, process_set=_sets.global_process_set, now=False):
    group, tensors = _sets.group_of(process_set), list(tensors)
    sizes = told_by_all(group, [number for tensor in tensors for number in (_rows(tensor, "allgather"), _row(tensor))], described(name))
    plan, outputs = Plan(group.size), []
    for i, tensor in enumerate(tensors):
        _must_have_rows_of([numbers[2 * i + 1] for numbers in sizes], group, "allgather")
        counts = [numbers[2 * i] for numbers in sizes]
        output = tensor.new_empty((sum(counts), *tensor.shape[1:]), requires_grad=False)
        plan.move(_work.ALLGATHERV, plan.given(tensor), plan.got(output), 0, out_counts=[count * _row(tensor) for count in counts])
        outputs.append(output)
    return Handle(group, plan, outputs, "ALLGATHER", named(name, "grouped_allgather"), described(name, tensors, rows=False), now)


def _broadcast(tensor, output, root_rank, name, process_set, now=False):
    group, plan = _sets.group_of(process_set), Plan(_sets.group_of(process_set).size)
    root = _sets.member(process_set, root_rank)
    if output is not tensor and root == group.rank:
        output.copy_(tensor.detach())
    own = plan.got(output)
    plan.move(_work.BROADCAST, None, own, own.numel(), root)
    return Handle(group, plan, [output], "BROADCAST", named(name, "broadcast"), described(name, [tensor]), now).only()


def broadcast_async(tensor, root_rank, name=None, process_set=_sets.global_process_set):
    """`root_rank` is one of hvd.rank(), also in a process set."""
    return _broadcast(tensor, _like(tensor), root_rank, name, process_set)


def broadcast_async_(tensor, root_rank, name=None, process_set=_sets.global_process_set):
    """In place."""
    return _broadcast(_dense(tensor), tensor, root_rank, name, process_set)


def alltoall_async(tensor, splits=None, name=None, process_set=_sets.global_process_set, now=False):
    """`splits`: rows for each rank; none: as many for each. The result is a pair: the rows from all ranks, and how many came
    from each. How many that will be is asked before this returns."""
    group, rows = _sets.group_of(process_set), _rows(tensor, "alltoall")
    like = splits if isinstance(splits, torch.Tensor) else torch.empty(0, dtype=torch.int32, device="cpu")
    if splits is None:
        if rows % group.size:
            raise ValueError(f"alltoall without splits: {rows} rows cannot be shared out equally among {group.size} ranks")
        splits = [rows // group.size] * group.size
    gives = [int(split) for split in splits]
    if len(gives) != group.size or sum(gives) != rows or min(gives) < 0:
        raise ValueError(f"alltoall: splits {gives} of {rows} rows among {group.size} ranks")
    sizes = told_by_all(group, [*gives, _row(tensor)], described(name))
    _must_have_rows_of([numbers[-1] for numbers in sizes], group, "alltoall")
    gets = [numbers[group.rank] for numbers in sizes]
    output = tensor.new_empty((sum(gets), *tensor.shape[1:]), requires_grad=False)
    plan = Plan(group.size)
    plan.move(_work.ALLTOALLV, plan.given(tensor), plan.got(output), 0, in_counts=[n * _row(tensor) for n in gives],
              out_counts=[n * _row(tensor) for n in gets])
    return Handle(group, plan, (output, torch.tensor(gets, dtype=like.dtype, device="cpu")), "ALLTOALL", named(name, "alltoall"),
                  described(name, [tensor], rows=False), now)


def reducescatter_async(tensor, name=None, op=Average, process_set=_sets.global_process_set, prescale_factor=1.0,
                        postscale_factor=1.0):
    """Where the rows cannot be shared out equally, the first ranks get one more."""
    return grouped_reducescatter_async([tensor], named(name, "reducescatter"), op, process_set, prescale_factor, postscale_factor).only()


def grouped_reducescatter_async(tensors, name=None, op=Average, process_set=_sets.global_process_set, prescale_factor=1.0,
                                postscale_factor=1.0, now=False):
    group, op, tensors = _sets.group_of(process_set), op_of(op), list(tensors)
    plan, outputs = Plan(group.size), []
    for tensor in tensors:
        rows, size = _rows(tensor, "reducescatter"), group.size
        most, more = -(-rows // size), rows % size
        tensor = _scaled(tensor, prescale_factor)
        if more:  # the library shares out equally: ranks with one row less get one of zeros behind it
            parts = tensor.split([most] * more + [most - 1] * (size - more))
            tensor = torch.cat([row for part in parts for row in (part, tensor.new_zeros((most - len(part), *tensor.shape[1:])))])
        mine = most if group.rank < more or not more else most - 1
        whole = tensor.new_empty((most, *tensor.shape[1:]), requires_grad=False)
        plan.reduction(_work.REDUCE_SCATTER, plan.given(tensor), plan.got(whole), whole.numel(), _OPS[op])
        if postscale_factor != 1:
            plan.then(lambda whole=whole: whole.copy_(_scaled(whole, postscale_factor)))
        outputs.append(whole[:mine])
    return Handle(group, plan, outputs, "REDUCESCATTER", named(name, "grouped_reducescatter"),
                  described(name, tensors, more=_scaling(prescale_factor, postscale_factor)), now)


def barrier(process_set=_sets.global_process_set):
    group, plan = _sets.group_of(process_set), Plan(1)
    plan.calls.append(_work.call(_work.BARRIER))
    Handle(group, plan, [None], "BARRIER", named(None, "barrier"), now=True)


def poll(handle):
    """Whether synchronize() would return at once."""
    return _handle(handle).ended()


def synchronize(handle):
    """Waits for the operation, and gives its result; raises what has become of it."""
    return _handle(handle).wait()


def _handle(handle):
    if not isinstance(handle, Handle):
        raise ValueError(f"{handle!r} is no handle of an operation: the functions whose names end with _async give one")
    return handle
