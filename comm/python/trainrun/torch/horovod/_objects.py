"""Objects that travel between ranks: numbers, strings, bytes, lists, dicts, sets, argparse.Namespace, tensors and arrays of
numpy. They are not pickled (decision 0065): what is something else is refused, by its name, on all ranks: one that went on
would take the next operation for this one."""
import json

import torch

from trainrun import _work
from trainrun._library import Unsupported
from trainrun.torch._foreign import unsupported
from trainrun.torch._pack import as_bytes, memory_of, pack, room_for, unpack
from trainrun.torch._plan import Plan
from trainrun.torch.horovod import _place, _sets
from trainrun.torch.horovod._handle import Handle
from trainrun.torch.horovod._names import described, named, number_of, told
from trainrun.torch.horovod._operations import allgather_async, synchronize, told_by_all


def _blob(value, where):
    """One tensor of bytes: the length of the JSON, the JSON, and the tensors one after another."""
    tensors = []
    try:
        text = json.dumps(pack(value, tensors, where)).encode()
        parts = [as_bytes(tensor.cpu().contiguous()) for tensor in tensors]
    except Exception as error:  # whatever it is, the other ranks wait for something
        why = str(error) if isinstance(error, Unsupported) else f"{where} cannot travel: {type(error).__name__}: {error}"
        text, parts = json.dumps({"refused": why}).encode(), []
    head = bytearray(len(text).to_bytes(8, "little") + text)
    return torch.cat([torch.frombuffer(head, dtype=torch.uint8), *parts])


def _value(blob):
    length = int.from_bytes(memory_of(blob[:8]), "little")
    packed, rest = json.loads(memory_of(blob[8:8 + length])), blob[8 + length:]
    if isinstance(packed, dict) and "refused" in packed:
        raise unsupported(packed["refused"])
    tensors = room_for(packed)
    sizes = [tensor.numel() * tensor.element_size() for tensor in tensors]
    for tensor, part in zip(tensors, rest.split(sizes) if sizes else ()):
        if tensor.numel():
            as_bytes(tensor).copy_(part)
    return unpack(packed, tensors)


def _broadcast(group, tensor, root, words):
    plan = Plan(group.size)
    plan.move(_work.BROADCAST, None, tensor, tensor.numel(), root)
    plan.calls[0].name = number_of(words)
    with told(words):
        _work.run(group._group, plan.calls)
    return tensor


def broadcast_object(obj=None, root_rank=0, name=None, process_set=_sets.global_process_set):
    """The object of `root_rank`, on all ranks."""
    group, root = _sets.group_of(process_set), _sets.member(process_set, root_rank)
    blob, words = _blob(obj, name or "the object") if group.rank == root else None, described(name)
    length = int(_broadcast(group, torch.tensor([0 if blob is None else blob.numel()], device="cpu"), root, words)[0])
    blob = _broadcast(group, torch.empty(length, dtype=torch.uint8, device="cpu") if blob is None else blob, root, words)
    value = _value(blob)  # also where it came from, which may have been refused
    return obj if group.rank == root else value


def allgather_object(obj, name=None, process_set=_sets.global_process_set):
    """A list of the objects of all ranks."""
    blob = _blob(obj, name or "the object")
    lengths = [numbers[0] for numbers in told_by_all(_sets.group_of(process_set), [blob.numel()], described(name))]
    blobs = synchronize(allgather_async(blob, name, process_set))
    return [_value(part) for part in blobs.split(lengths)]


def broadcast_optimizer_state(optimizer, root_rank, model=None):
    """All ranks' optimizers get the state of that of `root_rank`, and its options (learning rate, ...)."""
    kind = f"the state of an optimizer {type(optimizer).__name__}"  # whose name all ranks must give
    state = broadcast_object(optimizer.state_dict() if _place.rank() == root_rank else None, root_rank, kind)
    if _place.rank() != root_rank:
        optimizer.load_state_dict(state)


def broadcast_parameters(params, root_rank, process_set=_sets.global_process_set):
    """Into the tensors of all ranks: a state_dict, named_parameters() or parameters()."""
    if isinstance(params, dict):
        params = sorted(params.items())
    elif hasattr(params, "__iter__") and not isinstance(params, torch.Tensor):
        params = [item if isinstance(item, tuple) else (None, item) for item in params]
        if all(name is not None for name, _ in params):  # Horovod brings them together by name
            params = sorted(params, key=lambda item: item[0])
    else:
        raise ValueError(f"invalid params of type: {type(params)}")
    group, plans, every = _sets.group_of(process_set), {}, {}
    for name, tensor in params:
        if tensor is None:
            continue
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(f"{name} is no tensor but a {type(tensor).__name__}; try: hvd.broadcast_object()")
        plan = plans.setdefault(tensor.device, Plan(group.size))
        own = plan.got(tensor)
        plan.move(_work.BROADCAST, None, own, own.numel(), _sets.member(process_set, root_rank))
        every.setdefault(tensor.device, []).append(described(name, [tensor]))
        plan.calls[-1].name = number_of(every[tensor.device][-1])
    for device, plan in plans.items():
        with told(*every[device]):
            Handle(group, plan, [], "BROADCAST", named(None, "broadcast_parameters"), now=True)
