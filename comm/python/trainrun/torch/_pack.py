"""state_dicts and other objects on their way to another process: JSON, and beside it the tensors. Nothing is pickled, so what
is neither is refused, by its name."""
import argparse
import collections
import ctypes
import sys

import torch

from trainrun.torch._foreign import unsupported

_PLAIN = (bool, int, float, str, type(None))
_TENSORS = (torch.Tensor, torch.nn.Parameter)
_BYTES = {kind.__name__: kind for kind in (bytes, bytearray)}
_SETS = {kind.__name__: kind for kind in (set, frozenset)}
_DICTS = {kind.__name__: kind for kind in (dict, collections.OrderedDict, collections.Counter)}
_FACTORIES = {kind.__name__: kind for kind in (int, float, str, list, dict, set, tuple, bool)}  # of a defaultdict
_DEEPEST = 100  # levels: reading must not exhaust Python's stack where writing did not


def pack(value, tensors, where, depth=0):
    """`value` as JSON can say it; its tensors are appended to `tensors`. `where`: its name, for who made it."""
    kind = type(value)
    if depth > _DEEPEST:
        raise unsupported(f"{where.split('[')[0]} has more than {_DEEPEST} levels, or contains itself, and cannot travel")

    def inner(part, name=where):
        return pack(part, tensors, name, depth + 1)

    if kind in _PLAIN:
        return value
    if isinstance(value, torch.Tensor):
        if kind not in _TENSORS or value.layout != torch.strided or value.is_quantized or value.is_meta:
            raise unsupported(f"{where} is a {_name(value)} that is no plain tensor in memory, and cannot travel")
        plain = _described(value.detach().resolve_conj().resolve_neg(), tensors)
        if kind is torch.nn.Parameter:
            return {"parameter": plain, "grad": value.requires_grad}
        return plain | {"grad": True} if value.requires_grad else plain
    if kind in _DICTS.values() or _is_default(value):
        said = {"dict": [[inner(key), inner(one, f"{where}[{key!r}]")] for key, one in value.items()]}
        if kind is collections.defaultdict:
            said["default"] = value.default_factory and value.default_factory.__name__
        elif kind is not dict:
            said["kind"] = kind.__name__
        if getattr(value, "_metadata", None) is not None:  # what Module.state_dict() has beside its tensors
            said["metadata"] = inner(value._metadata)
        return said
    if kind in (list, tuple, torch.Size):
        parts = [inner(one, f"{where}[{number}]") for number, one in enumerate(value)]
        return parts if kind is list else {"size" if kind is torch.Size else "tuple": parts}
    if kind is argparse.Namespace:
        return {"namespace": inner(vars(value))}
    if kind in _SETS.values():
        return {"set": [inner(one) for one in value], "kind": kind.__name__}
    if kind in _BYTES.values():
        return {"bytes": _described(_of_bytes(value), tensors), "kind": kind.__name__}
    numpy = sys.modules.get("numpy")  # what is of numpy cannot be here without it
    if numpy and (kind is numpy.ndarray or isinstance(value, numpy.generic)) and not value.dtype.hasobject and not value.dtype.fields:
        return {"array": _described(_of_bytes(value.tobytes()), tensors), "of": value.dtype.str,
                "shape": None if isinstance(value, numpy.generic) else list(value.shape)}
    raise unsupported(f"{where} is a {_name(value)}, which cannot travel: numbers, strings, bytes, lists, dicts, sets, "
                      "argparse.Namespace, tensors and arrays can")


def unpack(packed, tensors):
    if isinstance(packed, list):
        return [unpack(one, tensors) for one in packed]
    if not isinstance(packed, dict):
        return packed
    if "tensor" in packed:
        tensor = tensors[packed["tensor"]]
        return tensor.requires_grad_() if packed.get("grad") else tensor
    if "tuple" in packed:
        return tuple(unpack(one, tensors) for one in packed["tuple"])
    if "size" in packed:
        return torch.Size(packed["size"])
    if "parameter" in packed:
        return torch.nn.Parameter(tensors[packed["parameter"]["tensor"]], packed["grad"])
    if "namespace" in packed:
        return argparse.Namespace(**unpack(packed["namespace"], tensors))
    if "set" in packed:
        return _SETS[packed["kind"]](unpack(one, tensors) for one in packed["set"])
    if "bytes" in packed:
        return _BYTES[packed["kind"]](memory_of(tensors[packed["bytes"]["tensor"]]))
    if "array" in packed:
        import numpy
        flat = numpy.frombuffer(bytearray(memory_of(tensors[packed["array"]["tensor"]])), dtype=packed["of"])
        return flat[0] if packed["shape"] is None else flat.reshape(packed["shape"])
    value = {unpack(key, tensors): unpack(one, tensors) for key, one in packed["dict"]}
    if "default" in packed:
        return collections.defaultdict(_FACTORIES.get(packed["default"]), value)
    if "kind" in packed:
        value = _DICTS[packed["kind"]](value)
    if "metadata" in packed:
        value._metadata = unpack(packed["metadata"], tensors)
    return value


def room_for(packed):
    """Tensors as `packed` describes them, in their order, with any content."""
    found = {}

    def look(part):
        if isinstance(part, dict) and "tensor" in part:
            found[part["tensor"]] = torch.empty(part["shape"], dtype=getattr(torch, part["dtype"]), device="cpu")
        elif isinstance(part, (dict, list)):
            for one in part.values() if isinstance(part, dict) else part:
                look(one)

    look(packed)
    return [found[number] for number in range(len(found))]


def as_bytes(tensor):
    """The memory of a contiguous tensor of the CPU."""
    return tensor.reshape(-1).view(torch.uint8)


def memory_of(tensor):
    """A copy of it as bytes."""
    return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size()) if tensor.numel() else b""


def _is_default(value):
    return type(value) is collections.defaultdict and value.default_factory in (None, *_FACTORIES.values())


def _described(tensor, tensors):
    tensors.append(tensor)
    return {"tensor": len(tensors) - 1, "dtype": str(tensor.dtype).removeprefix("torch."), "shape": list(tensor.shape)}


def _of_bytes(data):
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8, device="cpu")


def _name(value):
    return f"{type(value).__module__}.{type(value).__qualname__}"
