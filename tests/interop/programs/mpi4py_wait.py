"""Meets the others, waits until a file is there, and meets them again; prints two lines a rank. Arguments: that file."""
import os
import sys
import time

from mpi4py import MPI

world = MPI.COMM_WORLD
release = MPI.Get_library_version().split(",")[0].strip()
print(f"{release}: rank {world.rank} has met {sorted(world.allgather(world.rank))}", flush=True)
while world.bcast(not os.path.exists(sys.argv[1])):
    time.sleep(0.05)
print(f"{release}: rank {world.rank} again {sorted(world.allgather(world.rank))}", flush=True)
