/* What an MPI program asks of its launcher and of the other ranks: compiled as it is with each MPI's own
 * compiler.
 *
 *   all FILE        point to point, collectives, communicators, one-sided, a file; "rank R of N: all is well"
 *   abort RANK CODE MPI_Abort by RANK, while the others wait for it
 *   crash RANK      SIGSEGV of RANK, while the others wait for it
 *   exit RANK       RANK exits with 0 after MPI_Init, without MPI_Finalize
 *   error           an error of the user's, with MPI's own handler: it ends the job
 *   once RANK       crash, but in the first generation only, then as `all` without the file
 *   hello           nothing but MPI_Init and MPI_Finalize
 *   stay            MPI_Init, and then nothing until it is ended
 *   late RANK S     hello, but RANK comes to MPI_Init S seconds after the others
 *   time            of small messages between ranks 0 and 1, and of MPI_Allreduce by all, each in us
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

#define MUST(condition)                                                     \
  do {                                                                      \
    if (!(condition)) {                                                     \
      printf("rank %d: %s:%d: %s\n", rank, __FILE__, __LINE__, #condition); \
      fflush(stdout);                                                       \
      MPI_Abort(MPI_COMM_WORLD, 77);                                        \
    }                                                                       \
  } while (0)

static void point_to_point(void) {
  enum { many = 200000 };
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  int* out = malloc(many * sizeof *out);
  int* in = malloc(many * sizeof *in);
  for (int i = 0; i < many; ++i) out[i] = rank * 7 + i;
  for (int count = 1; count <= many; count *= 20) {
    MPI_Status status;
    MPI_Request requests[2];
    memset(in, 0, many * sizeof *in);
    MPI_Irecv(in, count, MPI_INT, left, 3, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out, count, MPI_INT, right, 3, MPI_COMM_WORLD, &requests[1]);
    MPI_Wait(&requests[0], &status);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    int got = 0;
    MPI_Get_count(&status, MPI_INT, &got);
    MUST(status.MPI_SOURCE == left && status.MPI_TAG == 3 && got == count);
    for (int i = 0; i < count; ++i) MUST(in[i] == left * 7 + i);
  }
  int token = rank, other = -1;
  MPI_Sendrecv(&token, 1, MPI_INT, right, 4, &other, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  MUST(other == left);
  free(out);
  free(in);
}

static void collectives(MPI_Comm comm) {
  int me, all;
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &all);
  int sum = 0, value = me + 1;
  MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm);
  MUST(sum == all * (all + 1) / 2);
  double large[5000], total[5000];
  for (int i = 0; i < 5000; ++i) large[i] = me + i;
  MPI_Allreduce(large, total, 5000, MPI_DOUBLE, MPI_MAX, comm);
  for (int i = 0; i < 5000; ++i) MUST(total[i] == all - 1 + i);
  for (int root = 0; root < all; ++root) {
    int word = me == root ? 42 + root : 0;
    MPI_Bcast(&word, 1, MPI_INT, root, comm);
    MUST(word == 42 + root);
  }
  int* table = malloc(2 * (size_t)all * sizeof *table);
  int* turned = table + all;
  MPI_Allgather(&value, 1, MPI_INT, table, 1, MPI_INT, comm);
  for (int i = 0; i < all; ++i) MUST(table[i] == i + 1);
  for (int i = 0; i < all; ++i) table[i] = me * 100 + i;
  MPI_Alltoall(table, 1, MPI_INT, turned, 1, MPI_INT, comm);
  for (int i = 0; i < all; ++i) MUST(turned[i] == i * 100 + me);
  int before = -1;
  MPI_Scan(&value, &before, 1, MPI_INT, MPI_SUM, comm);
  MUST(before == (me + 1) * (me + 2) / 2);
  MPI_Request request;
  MPI_Ibarrier(comm, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Barrier(comm);
  free(table);
}

static void communicators(void) {
  MPI_Comm half, twin, host;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
  collectives(half);
  MPI_Comm_dup(MPI_COMM_WORLD, &twin);
  collectives(twin);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  int here = 0;
  MPI_Comm_size(host, &here);
  const char* expected = getenv("LOCAL_WORLD_SIZE");
  MUST(expected == NULL || here == atoi(expected));
  collectives(host);
  MPI_Comm_free(&half);
  MPI_Comm_free(&twin);
  MPI_Comm_free(&host);
}

/* A window of whole cache lines: with 12 or 20 bytes a rank MPICH 4.0.2 loses puts, under its own launcher
 * too. */
static void one_sided(void) {
  MUST(size <= 64);
  int* window = NULL;
  MPI_Win win;
  MPI_Win_allocate((MPI_Aint)(64 * sizeof *window), sizeof *window, MPI_INFO_NULL, MPI_COMM_WORLD, &window,
                   &win);
  for (int i = 0; i < size; ++i) window[i] = -1;
  MPI_Win_fence(0, win);
  for (int to = 0; to < size; ++to) MPI_Put(&rank, 1, MPI_INT, to, rank, 1, MPI_INT, win);
  MPI_Win_fence(0, win);
  for (int i = 0; i < size; ++i) MUST(window[i] == i);
  int one = 1, old = 0;
  if (rank == 0) window[0] = 0;
  MPI_Win_fence(0, win);
  MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
  MPI_Fetch_and_op(&one, &old, MPI_INT, 0, 0, MPI_SUM, win);
  MPI_Win_unlock(0, win);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    MUST(window[0] == size);
    MPI_Win_unlock(0, win);
  }
  MPI_Win_free(&win);
}

static void file(const char* path) {
  MPI_File handle;
  int values[1000], back[1000];
  for (int i = 0; i < 1000; ++i) values[i] = rank * 1000 + i;
  MUST(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &handle) ==
       MPI_SUCCESS);
  MPI_File_write_at_all(handle, (MPI_Offset)rank * (MPI_Offset)sizeof values, values, 1000, MPI_INT,
                        MPI_STATUS_IGNORE);
  MPI_File_sync(handle);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_File_sync(handle);
  const int next = (rank + 1) % size;
  MPI_File_read_at(handle, (MPI_Offset)next * (MPI_Offset)sizeof values, back, 1000, MPI_INT,
                   MPI_STATUS_IGNORE);
  for (int i = 0; i < 1000; ++i) MUST(back[i] == next * 1000 + i);
  MPI_File_close(&handle);
}

static void errors(void) {
  MPI_Comm quiet;
  MPI_Comm_dup(MPI_COMM_WORLD, &quiet);
  MPI_Comm_set_errhandler(quiet, MPI_ERRORS_RETURN);
  int word = 0;
  const int code = MPI_Send(&word, 1, MPI_INT, size + 5, 0, quiet);
  int class = 0;
  MUST(code != MPI_SUCCESS);
  MPI_Error_class(code, &class);
  MUST(class == MPI_ERR_RANK);
  MPI_Comm_free(&quiet);
}

/* The shortest of many is what the way between the ranks allows: the rest is the machine's. */
static double shortest(int count, int rounds, void (*work)(int count, char* data), char* data) {
  double best = 1e9;
  for (int i = 0; i < rounds; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    for (int j = 0; j < 20; ++j) work(count, data);
    const double took = (MPI_Wtime() - begin) / 20;
    if (took < best) best = took;
  }
  return best * 1e6;
}

static void there_and_back(int count, char* data) {
  if (rank == 0) {
    MPI_Send(data, count, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
    MPI_Recv(data, count, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else if (rank == 1) {
    MPI_Recv(data, count, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(data, count, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
  }
}

static void sum(int count, char* data) {
  MPI_Allreduce(MPI_IN_PLACE, data, count / (int)sizeof(float), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void times(void) {
  enum { much = 1 << 20 };
  char* data = calloc(much, 1);
  const double latency = shortest(8, 200, there_and_back, data) / 2;
  const double small = shortest(8, 200, sum, data), large = shortest(much, 20, sum, data);
  if (rank == 0) printf("latency %.2f allreduce-8 %.2f allreduce-1M %.1f\n", latency, small, large);
  free(data);
}

int main(int argc, char** argv) {
  const char* verb = argc > 1 ? argv[1] : "all";
  const int chosen = argc > 2 ? atoi(argv[2]) : -1;
  const char* place = getenv("TRAINRUN_RANK");
  if (strcmp(verb, "late") == 0 && place != NULL && atoi(place) == chosen) sleep((unsigned)atoi(argv[3]));
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const char* generation = getenv("TRAINRUN_GENERATION");
  if (strcmp(verb, "hello") == 0 || strcmp(verb, "late") == 0) {
    printf("rank %d of %d\n", rank, size);
  } else if (strcmp(verb, "stay") == 0) {
    for (;;) pause();
  } else if (strcmp(verb, "time") == 0) {
    times();
  } else if (strcmp(verb, "abort") == 0) {
    if (rank == chosen) MPI_Abort(MPI_COMM_WORLD, atoi(argv[3]));
    MPI_Barrier(MPI_COMM_WORLD);
  } else if (strcmp(verb, "exit") == 0) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == chosen) _exit(0);
  } else if (strcmp(verb, "error") == 0) {
    int word = 0;
    if (rank == 1) MPI_Send(&word, 1, MPI_INT, size + 5, 0, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
  } else {
    const int strikes = strcmp(verb, "crash") == 0 ||
                        (strcmp(verb, "once") == 0 && generation != NULL && strcmp(generation, "1") == 0);
    MPI_Barrier(MPI_COMM_WORLD);
    if (strikes && rank == chosen) raise(SIGSEGV);
    point_to_point();
    collectives(MPI_COMM_WORLD);
    communicators();
    one_sided();
    if (strcmp(verb, "all") == 0 && argc > 2) file(argv[2]);
    errors();
    int* number = NULL;
    int flag = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &number, &flag);
    MUST(!flag || *number == size);
    printf("rank %d of %d: all is well\n", rank, size);
  }
  fflush(stdout);
  MPI_Finalize();
  return 0;
}
