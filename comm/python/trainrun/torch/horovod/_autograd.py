"""The operations that wait, through which gradients flow back as in Horovod."""
import torch

from trainrun.torch.horovod import _operations as ops
from trainrun.torch.horovod import _place, _sets
from trainrun.torch.horovod._compression import Compression
from trainrun.torch.horovod._names import named
from trainrun.torch.horovod._operations import Average, Sum, op_of

_ALL = _sets.global_process_set


class _Allreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, op, before, after, process_set, name, *tensors):
        ctx.how = (op, before, after, process_set, name)
        outputs = [ops._like(tensor) for tensor in tensors]
        ops.start_allreduce(_sets.group_of(process_set), tensors, outputs, op, before, after, name, now=True)
        return tuple(outputs)

    @staticmethod
    def backward(ctx, *gradients):
        return (None,) * 5 + _Allreduce.apply(*ctx.how, *(gradient.contiguous() for gradient in gradients))


def grouped_allreduce(tensors, average=None, name=None, compression=Compression.none, op=None, prescale_factor=1.0,
                      postscale_factor=1.0, process_set=_ALL):
    narrow = [compression.compress(tensor) for tensor in tensors]
    reduced = _Allreduce.apply(op_of(op, average), prescale_factor, postscale_factor, process_set, named(name, "grouped_allreduce"),
                               *(tensor for tensor, _ in narrow))
    return [compression.decompress(tensor, ctx) for tensor, (_, ctx) in zip(reduced, narrow)]


def allreduce(tensor, average=None, name=None, compression=Compression.none, op=None, prescale_factor=1.0, postscale_factor=1.0,
              process_set=_ALL):
    return grouped_allreduce([tensor], average, named(name, "allreduce"), compression, op, prescale_factor, postscale_factor,
                             process_set)[0]


def grouped_allreduce_(tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=_ALL):
    op, name, tensors = op_of(op, average), named(name, "grouped_allreduce"), list(tensors)
    return ops.start_allreduce(_sets.group_of(process_set), tensors, tensors, op, prescale_factor, postscale_factor, name, now=True).wait()


def allreduce_(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=_ALL):
    return grouped_allreduce_([tensor], average, named(name, "allreduce"), op, prescale_factor, postscale_factor, process_set)[0]


class _Allgather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, name, process_set, *tensors):
        ctx.rows, ctx.process_set = [tensor.shape[0] if tensor.dim() else 0 for tensor in tensors], process_set
        return tuple(ops.grouped_allgather_async(tensors, name, process_set, now=True).wait())

    @staticmethod
    def backward(ctx, *gradients):
        reduced = grouped_allreduce([gradient.contiguous() for gradient in gradients], op=Average, process_set=ctx.process_set)
        told = ops.told_by_all(_sets.group_of(ctx.process_set), ctx.rows, "the rows that a gradient is of")
        before = told[:ctx.process_set.rank()]
        return (None, None, *(gradient.narrow(0, sum(rows[i] for rows in before), ctx.rows[i]) for i, gradient in enumerate(reduced)))


def grouped_allgather(tensors, name=None, process_set=_ALL):
    return list(_Allgather.apply(named(name, "grouped_allgather"), process_set, *tensors))


def allgather(tensor, name=None, process_set=_ALL):
    return _Allgather.apply(named(name, "allgather"), process_set, tensor)[0]


class _Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, root_rank, name, process_set):
        ctx.root_rank, ctx.process_set = root_rank, process_set
        return ops._broadcast(tensor, ops._like(tensor), root_rank, name, process_set, now=True).wait()

    @staticmethod
    def backward(ctx, gradient):
        reduced = allreduce(gradient.contiguous(), op=Average, process_set=ctx.process_set)
        return reduced if _place.rank() == ctx.root_rank else torch.zeros_like(reduced), None, None, None


def broadcast(tensor, root_rank, name=None, process_set=_ALL):
    return _Broadcast.apply(tensor, root_rank, name, process_set)


def broadcast_(tensor, root_rank, name=None, process_set=_ALL):
    return ops._broadcast(ops._dense(tensor), tensor, root_rank, name, process_set, now=True).wait()


class _Alltoall(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, splits, name, process_set):
        output, ctx.got = ops.alltoall_async(tensor, splits, name, process_set, now=True).wait()
        ctx.process_set = process_set
        ctx.mark_non_differentiable(ctx.got)
        return output, ctx.got

    @staticmethod
    def backward(ctx, gradient, _):
        return _Alltoall.apply(gradient.contiguous(), ctx.got, None, ctx.process_set)[0], None, None, None


def alltoall(tensor, splits=None, name=None, process_set=_ALL):
    """With `splits`: a pair, whose second part says how many rows came from each rank."""
    output, got = _Alltoall.apply(tensor, splits, name, process_set)
    return output if splits is None else (output, got)


class _Reducescatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, name, op, process_set, before, after, *tensors):
        ctx.process_set, ctx.factor = process_set, (process_set.size() if op == Sum else 1) * before * after
        return tuple(ops.grouped_reducescatter_async(tensors, name, op, process_set, before, after, now=True).wait())

    @staticmethod
    def backward(ctx, *gradients):
        return (None,) * 5 + _Allgather.apply(None, ctx.process_set, *((gradient * ctx.factor).contiguous() for gradient in gradients))


def grouped_reducescatter(tensors, name=None, compression=Compression.none, op=Average, process_set=_ALL, prescale_factor=1.0,
                          postscale_factor=1.0):
    narrow = [compression.compress(tensor) for tensor in tensors]
    reduced = _Reducescatter.apply(named(name, "grouped_reducescatter"), op_of(op), process_set, prescale_factor, postscale_factor,
                                   *(tensor for tensor, _ in narrow))
    return [compression.decompress(tensor, ctx) for tensor, (_, ctx) in zip(reduced, narrow)]


def reducescatter(tensor, name=None, compression=Compression.none, op=Average, process_set=_ALL, prescale_factor=1.0,
                  postscale_factor=1.0):
    return grouped_reducescatter([tensor], named(name, "reducescatter"), compression, op, process_set, prescale_factor,
                                 postscale_factor)[0]
