"""What a first program of mpi4py does; prints one line a rank."""
import numpy
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
part = numpy.full(1 << 16, rank, dtype="d")
whole = numpy.empty_like(part)
world.Allreduce(part, whole)
assert (whole == size * (size - 1) / 2).all()
assert world.allgather(rank) == list(range(size))
host = world.Split_type(MPI.COMM_TYPE_SHARED)
halves = world.Split(rank % 2, rank)
assert halves.allreduce(1) == (size + 1 - rank % 2) // 2
print(f"rank {rank} of {size}, {host.Get_size()} here, {MPI.Get_library_version().split(',')[0].splitlines()[0].strip()}",
      flush=True)
