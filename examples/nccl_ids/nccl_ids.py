"""A program that calls NCCL itself, by ctypes: comm gives it the id of a communicator of all ranks.

Ends with 0 when the communicator was made, with 3 when NCCL refused, in whose words it then says why.
"""
import ctypes
import os
import sys

import trainrun
import trainrun.nccl


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


def libnccl():
    return ctypes.CDLL(trainrun.nccl.library_of_wheel() or os.environ.get("TRAINRUN_NCCL_LIB") or "libnccl.so.2")


def main():
    nccl = libnccl()  # first, so that comm takes the same
    nccl.ncclGetErrorString.restype = nccl.ncclGetLastError.restype = ctypes.c_char_p
    world = trainrun.init()
    ids = trainrun.nccl.unique_ids(world)
    communicator = ctypes.c_void_p()
    answer = nccl.ncclCommInitRank(ctypes.byref(communicator), world.size, UniqueId.from_buffer_copy(ids[0]), world.rank)
    if answer != 0:
        why = nccl.ncclGetLastError(None).decode().strip()
        print(f"rank {world.rank}: ncclCommInitRank: {nccl.ncclGetErrorString(answer).decode()} ({answer}): {why}", flush=True)
        world.shutdown()
        return 3
    print(f"rank {world.rank} of {world.size} is in the communicator", flush=True)
    world.shutdown()
    nccl.ncclCommDestroy(communicator)
    return 0


if __name__ == "__main__":
    sys.exit(main())
