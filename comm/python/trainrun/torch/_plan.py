"""What an operation on tensors asks of the library: its calls, the memory they need, and what is to be done after them."""
import torch

from trainrun import _work
from trainrun.torch import _device
from trainrun.torch._foreign import unsupported

_DTYPES = {torch.uint8: 0, torch.int8: 1, torch.int32: 2, torch.int64: 3, torch.float32: 4, torch.float64: 5, torch.float16: 6,
           torch.bfloat16: 7, torch.bool: 8}
_PARTS = {torch.complex64: torch.float32, torch.complex128: torch.float64}  # two of each, whose sums are those of the whole
_OPS = {"SUM": 0, "AVG": 1, "MIN": 2, "MAX": 3, "PRODUCT": 4, "BAND": 5, "BOR": 6, "BXOR": 7}

# NCCL has no reductions of bool: of bytes that are 0 and 1 these are the same.
_OF_BITS = {_OPS[either]: _OPS["MAX"] for either in ("SUM", "MAX", "BOR")} | {_OPS[both]: _OPS["MIN"] for both in ("PRODUCT", "MIN", "BAND")}


def op_of(reduce_op):
    name = getattr(getattr(reduce_op, "op", reduce_op), "name", str(reduce_op))
    if name not in _OPS:
        raise unsupported(f"the backend trainrun has no reduction {name}; it has {', '.join(_OPS)}")
    return _OPS[name]


def _plain(tensor):
    """The same elements one after another: the tensor itself where that is so."""
    if not (tensor.device.type == "cpu" or _device.is_on_device(tensor)) or tensor.layout != torch.strided:
        raise unsupported(f"trainrun's operations are on dense tensors of the CPU and of CUDA's devices, not on {tensor.layout} on "
                          f"{tensor.device}")
    return tensor.detach().resolve_conj().resolve_neg().contiguous()


class Plan:
    def __init__(self, size):
        self.size, self.calls, self.keep, self._made, self._after = size, [], [], [], []
        self.device = None  # of CUDA, whose memory it works with; none: the host's

    def _place(self, tensors):
        for tensor in tensors:
            device = tensor.device if _device.is_on_device(tensor) else None
            if self.keep and device != self.device:
                raise ValueError(f"tensors on {device or 'the CPU'} and on {self.device or 'the CPU'} in one operation")
            self.device = device
            self.keep.append(tensor)

    def given(self, tensor):
        plain = _plain(tensor)
        self._place([plain])
        return plain

    def got(self, tensor):
        """Where its elements go: to itself at once, or in the end."""
        plain = self.given(tensor)
        if plain.data_ptr() != tensor.data_ptr() or not tensor.is_contiguous():
            self._place([tensor])
            self._after.append(lambda: tensor.detach().copy_(plain))
        return plain

    def joined(self, tensors):
        """Those that are given, one after another."""
        flat = torch.cat([_plain(tensor).view(-1) for tensor in tensors])
        self._place([flat])
        return flat

    def apart(self, tensors):
        """Where those that are got come one after another; they get their parts in the end."""
        flat = torch.empty(sum(tensor.numel() for tensor in tensors), dtype=tensors[0].dtype, device=tensors[0].device)
        self._place([flat, *tensors])

        def hand_out():
            for tensor, part in zip(tensors, flat.split([tensor.numel() for tensor in tensors])):
                tensor.detach().copy_(part.view(tensor.shape))
        self._after.append(hand_out)
        return flat

    def has_more(self):
        """To be done by finish()."""
        return bool(self._made or self._after)

    def finish(self):
        for step in (*self._made, *self._after):
            step()

    def then(self, step):
        """Done after the calls, to what they have made, before that is handed out."""
        self._made.append(step)

    def reduction(self, kind, give, get, count, op, root=0, **factors):
        dtype = _DTYPES.get(give.dtype)
        if self.device is not None and give.dtype == torch.bool and op in _OF_BITS:
            dtype, op = _DTYPES[torch.uint8], _OF_BITS[op]
        if self.device is not None and op == _OPS["AVG"] and not (give.is_floating_point() or give.is_complex()):
            # NCCL has no means of integers, and a sum may not fit into their type.
            to, give, op, dtype = get, self.given(give.to(torch.int64)), _OPS["SUM"], _DTYPES[torch.int64]
            if get is not None:
                get = self.given(torch.empty_like(to, dtype=torch.int64))
                self.then(lambda: to.copy_(torch.div(get, self.size, rounding_mode="trunc")))
        if give.dtype in _PARTS and op in (_OPS["SUM"], _OPS["AVG"]):
            dtype, count = _DTYPES[_PARTS[give.dtype]], 2 * count
        if give.dtype in _PARTS and dtype is None:
            raise unsupported(f"trainrun reduces {give.dtype} by SUM and AVG alone")
        if dtype is None:
            raise unsupported(f"trainrun cannot reduce {give.dtype}; it reduces {', '.join(map(str, _DTYPES))}")
        self._add(kind, give, get, count, dtype, op=op, root=root, **factors)

    def move(self, kind, give, get, count, root=0, in_counts=None, out_counts=None):
        """Of elements of any type, as bytes where the library has no word for it."""
        known = give if give is not None else get
        dtype, width = _DTYPES.get(known.dtype), 1
        if dtype is None:
            dtype, width = 0, known.element_size()
        self._add(kind, give, get, count * width, dtype, root=root,
                  in_counts=in_counts and [n * width for n in in_counts], out_counts=out_counts and [n * width for n in out_counts])

    def _add(self, kind, give, get, count, dtype, **more):
        if give is not None and get is not None and give.dtype != get.dtype:
            raise ValueError(f"the output is of {get.dtype}, the input of {give.dtype}")
        self.calls.append(_work.call(kind, None if give is None else give.data_ptr(), None if get is None else get.data_ptr(), count,
                                     dtype, **more))

    def must_fit(self, what, have, want):
        if have != want:
            raise ValueError(f"{what} has {have} elements, not {want}")
