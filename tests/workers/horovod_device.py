"""Horovod's API on tensors of a device. horovod_device.py VERB"""
import os
import signal
import sys

import torch
import trainrun
import trainrun.torch as hvd


def join():
    hvd.allreduce(torch.ones(3))
    try:
        hvd.join()
    except trainrun.Unsupported as error:
        print(error, flush=True)


def dies():
    """What was reduced before the death is right; what came later is told, and not given out."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the launcher's: first say what was heard
    try:
        for step in range(1_000_000):
            if hvd.rank() == 1 and step == 5:
                os.kill(os.getpid(), signal.SIGKILL)
            handle = hvd.allreduce_async(torch.ones(1000), op=hvd.Sum)
            got = hvd.synchronize(handle)
            assert torch.equal(got, torch.full((1000,), float(hvd.size()))), got
    except trainrun.PeerLost as error:
        print(f"rank {hvd.rank()}: lost rank {error.culprit} on {error.host}", flush=True)
        os._exit(3)


hvd.init()
globals()[sys.argv[1]]()
