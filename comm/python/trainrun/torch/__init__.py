"""What trainrun has for programs of PyTorch.

    import trainrun.torch
    torch.distributed.init_process_group("trainrun")    # trainrun's collectives, where "gloo" was written

What fails raises trainrun.PeerLost and its like, which are RuntimeErrors. Where torch waits in C++, as DDP does, it passes on
their words alone, in a RuntimeError of its own: failure() is the exception then.

trainrun.torch.elastic is a process group over torch's own Gloo that outlives its ranks.
"""
from trainrun.torch import _register
from trainrun.torch._register import failure

__all__ = ["failure"]

_register.register()
