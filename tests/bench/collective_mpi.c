/* What collective_rank.cc does, by MPI: the same buffers, calls and lines. Built by tests/bench/collectives.
 *   collective_mpi ROUNDS BYTES... */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return x < y ? -1 : x > y;
}

static void measure(size_t bytes, int rounds, int rank, int size) {
  const size_t count = bytes / sizeof(float), touched = (size_t)64 << 20;
  size_t buffers = touched / bytes > 8 ? 8 : touched / bytes, i, b;
  const int calls = bytes <= 4096 ? 200 : 1;
  float **in, **out;
  double* times = malloc((size_t)rounds * sizeof *times);
  int correct = 1, round, call;
  if (bytes < 64 * 1024 || buffers < 1) buffers = 1;
  in = malloc(buffers * sizeof *in);
  out = malloc(buffers * sizeof *out);
  for (b = 0; b < buffers; ++b) {
    in[b] = malloc(bytes);
    out[b] = malloc(bytes);
    for (i = 0; i < count; ++i) in[b][i] = (float)rank + (float)b, out[b][i] = 0;
  }
  for (round = 0; round < rounds + 2; ++round) {
    double begin, took, slowest;
    float expected;
    b = (size_t)round % buffers;
    MPI_Barrier(MPI_COMM_WORLD);
    begin = MPI_Wtime();
    for (call = 0; call < calls; ++call)
      MPI_Allreduce(in[b], out[b], (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    took = (MPI_Wtime() - begin) * 1e6 / calls;
    expected = (float)(size * (size - 1) / 2) + (float)size * (float)b;
    if (out[b][0] != expected || out[b][count - 1] != expected) correct = 0;
    MPI_Allreduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (round >= 2) times[round - 2] = slowest;
  }
  qsort(times, (size_t)rounds, sizeof *times, ascending);
  if (rank == 0) printf("mpi %zu %.3f %s\n", bytes, times[rounds / 2], correct ? "right" : "wrong");
  for (b = 0; b < buffers; ++b) free(in[b]), free(out[b]);
  free(in);
  free(out);
  free(times);
}

int main(int argc, char** argv) {
  int rank, size, i;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (i = 2; i < argc; ++i) measure(strtoull(argv[i], NULL, 10), atoi(argv[1]), rank, size);
  MPI_Finalize();
  return 0;
}
