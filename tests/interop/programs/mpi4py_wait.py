"""Meets the others, waits for a line in a pipe, and meets them again; prints two lines a rank.
Arguments: the pipe, which has a name."""
import sys

from mpi4py import MPI

world = MPI.COMM_WORLD
release = MPI.Get_library_version().split(",")[0].strip()
print(f"{release}: rank {world.rank} has met {sorted(world.allgather(world.rank))}", flush=True)
if world.rank == 0:
    with open(sys.argv[1], encoding="utf-8") as pipe:
        pipe.readline()
print(f"{release}: rank {world.rank} again {sorted(world.allgather(world.rank))}", flush=True)
