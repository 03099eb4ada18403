"""Objects of Horovod's API that travel between ranks: they keep their types, or all ranks hear that they cannot."""
import argparse
import collections

import torch
import trainrun
import trainrun.torch as hvd


def refused(kind, words, function):
    try:
        function()
    except kind as error:
        assert words in str(error), f"{words!r} is not in {str(error)!r}"
        return
    raise AssertionError(f"nothing was raised instead of {words!r}")


def objects():
    import numpy
    rank, size = hvd.rank(), hvd.size()

    def thing(of):
        torch.manual_seed(of)
        return {"rank": of, 3: [1.5, None, True, "ü" * of], "bytes": b"\0\1" * of, "set": {1, of}, ("a", of): (of, [of]),
                "tensor": torch.arange(of + 1), "none": torch.empty(0, 2), "number": numpy.float32(of), "big": 1 << 100,
                "array": numpy.arange(6, dtype=">u2").reshape(2, 3) + of, "words": numpy.array(["a", "bc"]), "options": argparse.Namespace(of=[of]),
                "counted": collections.Counter("a" * of), "ordered": collections.OrderedDict(b=of, a=1), "size": torch.Size((of, 2)),
                "default": collections.defaultdict(list, a=[of]), "parameter": torch.nn.Parameter(torch.ones(of), requires_grad=False),
                "module": torch.nn.Linear(2, 1 + of).state_dict()}

    def same(a, b):
        assert type(a) is type(b), (a, b)
        assert getattr(a, "_metadata", None) == getattr(b, "_metadata", None), (a, b)
        assert getattr(a, "requires_grad", None) == getattr(b, "requires_grad", None), (a, b)
        if isinstance(a, dict):
            assert list(a) == list(b), (a, b)
            assert getattr(a, "default_factory", None) is getattr(b, "default_factory", None), (a, b)
            [same(a[key], b[key]) for key in a]
        elif isinstance(a, (torch.Tensor, numpy.ndarray)):
            assert a.dtype == b.dtype and a.shape == b.shape and (a == b).all(), (a, b)
        else:
            assert a == b, (a, b)

    for of, got in enumerate(hvd.allgather_object(thing(rank))):
        same(got, thing(of))
        same(hvd.broadcast_object(thing(rank) if rank == of else None, of), thing(of))
    # All hear of it, so that none takes the next operation for this one.
    refused(trainrun.Unsupported, "is a builtins.object, which cannot", lambda: hvd.broadcast_object(0 if rank else object(), 0))
    assert hvd.broadcast_object(7 - rank, 0) == 7 and hvd.allgather_object(None) == [None] * size
    refused(trainrun.Unsupported, "the object['f'] is a builtins.function, which cannot travel", lambda: hvd.allgather_object({"f": objects}))
    refused(trainrun.Unsupported, "the object is a horovod_objects.Own, which cannot", lambda: hvd.broadcast_object(Own(a=1), 0))
    itself = []
    itself.append(itself)
    refused(trainrun.Unsupported, "the object has more than 100 levels, or contains itself", lambda: hvd.broadcast_object(None if rank else itself, 0))
    assert hvd.broadcast_object(rank, 0) == 0


class Own(dict):
    pass
