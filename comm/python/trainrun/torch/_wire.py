"""What ranks tell each other through comm's own group, next to that of torch."""
import array
import ctypes
import json

import torch

from trainrun._library import check, lib
from trainrun.torch._pack import as_bytes

BUCKET = 16 << 20  # bytes: what is smaller travels together
U8 = 0


def exchange(world, value):
    """What JSON can say, of all ranks, in their order."""
    data = json.dumps(value).encode()
    lengths = array.array("q", bytes(8 * world.size))
    world.allgather(array.array("q", [len(data)]), lengths)
    width = max(lengths)
    gathered = bytearray(width * world.size)
    world.allgather(data.ljust(width), gathered)
    return [json.loads(gathered[rank * width:(rank + 1) * width]) for rank in range(world.size)]


def _broadcast(world, memory, root):
    check(lib.trc_broadcast(world._group, ctypes.c_void_p(memory.data_ptr()), memory.numel(), U8, root))


def send_text(world, text, root):
    """`text` of the rank `root`, on all."""
    data = bytearray(text.encode()) if world.rank == root else None
    length = world.broadcast(array.array("q", [len(data) if data is not None else 0]), root)[0]
    data = bytearray(length) if data is None else data
    return world.broadcast(data, root).decode()


def send_tensors(world, tensors, root):
    """The tensors of `root` into those of the others, which are contiguous and on the CPU."""
    bucket, size = [], 0
    for tensor in tensors + [None]:
        if tensor is not None and tensor.numel() == 0:
            continue
        bytes_of_it = 0 if tensor is None else tensor.numel() * tensor.element_size()
        if bucket and (tensor is None or size + bytes_of_it > BUCKET):
            _send(world, bucket, size, root)
            bucket, size = [], 0
        if tensor is not None:
            bucket.append(tensor)
            size += bytes_of_it


def _send(world, bucket, size, root):
    mine = world.rank == root
    parts = [as_bytes(tensor.cpu().contiguous() if mine else tensor) for tensor in bucket]
    if len(parts) == 1:
        return _broadcast(world, parts[0], root)
    memory = torch.cat(parts) if mine else torch.empty(size, dtype=torch.uint8, device="cpu")
    _broadcast(world, memory, root)
    if not mine:
        for part, sent in zip(parts, memory.split([part.numel() for part in parts])):
            part.copy_(sent)
