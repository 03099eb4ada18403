"""Whether this torch can form a process group anew in the same process.

What that takes is private to torch and may change with any release: it is looked for by name, and what it does was
tried with the releases below (tests/interop).
"""
import inspect
import warnings

import torch
import torch.distributed as dist

from trainrun.torch._foreign import unsupported

TRIED = {"2.15": ("gloo",)}  # release -> backends
PARTS = ("_reconfigure", "_get_reconfigure_handle", "_supports_reconfigure")
INSTEAD = "try: trainrun --on-failure restart-world --preload auto, which start all ranks anew from a checkpoint, in milliseconds"


def release():
    return ".".join(torch.__version__.split(".")[:2])


def missing():
    """What this torch lacks; empty if nothing."""
    if not dist.is_available():
        return "torch.distributed"
    if "enable_reconfigure" not in inspect.signature(dist.init_process_group).parameters:
        return "init_process_group(enable_reconfigure=)"
    return next((f"torch.distributed.{name}" for name in PARTS if not hasattr(dist, name)), "")


def require(backend):
    lacking = missing()
    if lacking:
        raise unsupported(f"torch {torch.__version__} cannot form a process group anew in place: it has no {lacking}; "
                          f"releases that were tried: {', '.join(TRIED)}; {INSTEAD}")
    if backend != "gloo":
        raise unsupported(f"trainrun.torch.elastic works with the backend \"gloo\", not {backend!r}, nor with several at once; "
                          f"{INSTEAD}")


def warn_if_untried():
    if release() not in TRIED:
        warnings.warn(f"trainrun.torch.elastic was not tried with torch {torch.__version__} (but with {', '.join(TRIED)})",
                      stacklevel=3)
