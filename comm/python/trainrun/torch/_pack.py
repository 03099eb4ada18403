"""state_dicts on their way to another process: JSON, and beside it the tensors. Nothing is pickled, so what is neither
is refused, by its name."""
import torch

from trainrun.torch._foreign import unsupported

_PLAIN = (bool, int, float, str, type(None))
_TENSORS = (torch.Tensor, torch.nn.Parameter)


def pack(value, tensors, where):
    """`value` as JSON can say it; its tensors are appended to `tensors`. `where`: its name, for who made it."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, torch.Tensor):
        if type(value) not in _TENSORS or value.layout != torch.strided or value.is_quantized or value.is_meta:
            raise unsupported(f"{where} is a {_name(value)} that is no plain tensor in memory, and cannot travel")
        tensors.append(value.detach())
        return {"tensor": len(tensors) - 1, "dtype": str(value.dtype).removeprefix("torch."), "shape": list(value.shape)}
    if isinstance(value, dict):
        return {"dict": [[pack(key, tensors, where), pack(one, tensors, f"{where}[{key!r}]")] for key, one in value.items()]}
    if isinstance(value, (list, tuple)) and (type(value) in (list, tuple) or isinstance(value, torch.Size)):
        parts = [pack(one, tensors, f"{where}[{number}]") for number, one in enumerate(value)]
        return parts if type(value) is list else {"tuple": parts}
    raise unsupported(f"{where} is a {_name(value)}, which cannot travel: numbers, strings, lists, dicts and tensors can")


def unpack(packed, tensors):
    if isinstance(packed, list):
        return [unpack(one, tensors) for one in packed]
    if not isinstance(packed, dict):
        return packed
    if "tensor" in packed:
        return tensors[packed["tensor"]]
    if "tuple" in packed:
        return tuple(unpack(one, tensors) for one in packed["tuple"])
    return {unpack(key, tensors): unpack(one, tensors) for key, one in packed["dict"]}


def room_for(packed):
    """Tensors as `packed` describes them, in their order, with any content."""
    found = {}

    def look(part):
        if isinstance(part, dict) and "tensor" in part:
            found[part["tensor"]] = torch.empty(part["shape"], dtype=getattr(torch, part["dtype"]))
        elif isinstance(part, (dict, list)):
            for one in part.values() if isinstance(part, dict) else part:
                look(one)

    look(packed)
    return [found[number] for number in range(len(found))]


def as_bytes(tensor):
    """The memory of a contiguous tensor of the CPU."""
    return tensor.reshape(-1).view(torch.uint8)


def _name(value):
    return f"{type(value).__module__}.{type(value).__qualname__}"
