"""Some ranks are killed (with "host": and all of their host), and the others go on without them by MPI's ULFM; prints one line a
rank that is left."""
import os
import signal
import sys

from mpi4py import MPI

victims = [int(word) for word in sys.argv[1].split(",")]
world = MPI.COMM_WORLD
world.Set_errhandler(MPI.ERRORS_RETURN)
rank, size = world.Get_rank(), world.Get_size() - len(victims)
world.Barrier()
if rank in victims:
    os.kill(os.getppid() if "host" in sys.argv else os.getpid(), signal.SIGKILL)
    signal.pause()
try:
    while True:
        world.Barrier()
except MPI.Exception:
    world.Revoke()
left = world.Shrink()
while left.Get_size() > size:  # not all deaths were known yet
    left = left.Shrink()
assert left.Get_size() == size and left.allreduce(1) == size and left.Agree(1) == 1
print(f"rank {left.Get_rank()} of {size} left", flush=True)
