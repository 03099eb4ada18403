/* trainrun_comm: collective operations among the ranks of a job, C interface; trainrun_comm.hpp is a C++
 * layer over it. What else libtrainrun_comm.so exports is in the headers beside this one: trainrun_work.h,
 * trainrun_nccl.h, trainrun_foreign.h.
 *
 * Where a process gets its place from (set by trainrun, or by hand next to `trainrun rendezvous`):
 *   TRAINRUN_RENDEZVOUS  HOST:PORT of the rendezvous server; without it the world is this process alone
 *   TRAINRUN_KEY_FILE    file with the job's key, mode 0600
 *   TRAINRUN_RANK        0..size-1; without it ranks are given in the order of arrival
 *   TRAINRUN_SIZE        number of ranks; checked against the server's
 *   TRAINRUN_GENERATION  number of the world (default 1); 0: of an elastic process that has no place so far
 *   TRAINRUN_ADDRESS     numeric address at which the other ranks reach this one (default: that of the
 *                        connection to the server)
 *   TRAINRUN_HOST        name of this host for messages (default: its hostname)
 *   TRAINRUN_WORKER      number of this process in the job; without it there is no next generation for it
 *   TRAINRUN_COMM_BACKEND  auto (default): memory on a host, Gloo between hosts; or shm, gloo alone
 *   TRAINRUN_OP_TIMEOUT, TRAINRUN_INIT_TIMEOUT   times like 90, 2m (defaults 5m, 2m); options go first
 *   TRAINRUN_ELASTIC_TIMEOUT   how long an elastic process waits for its place in the next generation (10m);
 *                        trainrun sets it to its own --elastic-timeout and a minute
 *
 * Failure. When a rank dies, every other rank's operation, also one that runs, fails within about a second
 * with TRC_PEER_LOST, and trc_last_error names the rank, its host and how it ended. One that ends with 0
 * while others are in an operation is TRC_ABORTED there: it has left the world. After any failure but
 * TRC_INVALID and TRC_UNSUPPORTED the world is over: every later operation fails at once with the same error
 * (after a TRC_MISMATCH that all ranks of the world have, those of its group), and buffers of failed
 * operations have undefined content. The library never ends the process. trc_elastic goes on from there, in a
 * new world.
 *
 * Operations that go on while the program does something else are in trainrun_work.h.
 *
 * Threads. Operations of one group run one after another, in the order in which they are called; all ranks
 * must call the same operations in the same order. A call from several threads at once is safe but has no
 * order. Times of operations leave out that for which the process is stopped.
 *
 * Forks. A world belongs to the process that made it. In a forked child every call for it answers TRC_INVALID
 * (trc_should_stop 0) and touches nothing of the parent's, and so does the end of the child; trc_rank and its
 * like still tell.
 *
 * Signals. While a world of more than one rank lives, SIGPIPE is ignored if its disposition was the default.
 * The library's own threads take no signals.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define TRC_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

typedef enum trc_status {
  TRC_OK = 0,
  TRC_PEER_LOST = 1,   /* a rank died: culprit, host, how */
  TRC_ABORTED = 2,     /* the generation ended, or a rank gave up: how */
  TRC_TIMEOUT = 3,     /* the operation's time has passed: missing, as far as known */
  TRC_MISMATCH = 4,    /* ranks called different things: the message describes both */
  TRC_TRANSPORT = 5,   /* a connection failed although no rank is known to have died */
  TRC_INVALID = 6,     /* a wrong argument or environment */
  TRC_UNSUPPORTED = 7, /* a right one that this version cannot do */
  TRC_INTERNAL = 8,    /* our own fault, or no memory */
  /* Of elastic programs alone: */
  TRC_HOSTS_UPDATED = 9, /* no failure: hosts will come or go, all ranks are told at the same point */
  TRC_REMOVED = 10,      /* no failure: the job has no more use for this process; it should exit with 0 */
  /* Of groups on a device alone (trainrun_nccl.h): */
  TRC_DEVICE = 11,          /* NCCL or CUDA failed in this process: the message has their words */
  TRC_RESTART_REQUIRED = 12 /* as TRC_DEVICE, and this process cannot use the device any more: it should end,
                             * so that the launcher starts another one */
} trc_status;

typedef enum trc_dtype {
  TRC_U8 = 0,
  TRC_I8 = 1,
  TRC_I32 = 2,
  TRC_I64 = 3,
  TRC_F32 = 4,
  TRC_F64 = 5,
  TRC_F16 = 6,  /* IEEE binary16 */
  TRC_BF16 = 7, /* the upper half of an f32 */
  TRC_BOOL = 8, /* a byte: 0 is false, all others are true; results are 0 or 1 */
  TRC_DTYPE_RANGE =
      0x7fffffff /* no type: gives the enum the range of an int, so that any number is defined */
} trc_dtype;

/* Of integers: sums and products wrap, the mean is cut towards zero and does not wrap, but that of i64 where
 * the sum does not fit into one. Of f16 and bf16: formed in f32, and rounded once at the end (nearest,
 * halfway to even). Of bool: sum, max and bor tell whether any is true, min, product and band whether all
 * are, bxor whether an odd number is; there is no mean. Bitwise operations are for integers and bool.
 * Anything else is TRC_INVALID. Floats are added in the order of the ranks over shm, around a ring over gloo
 * (small buffers in the order of the ranks), host by host over hier: the last bits may differ between them,
 * never between ranks. A NaN of any rank makes a sum, product, min or max NaN;
 * over NCCL that is NCCL's to say. */
typedef enum trc_op {
  TRC_SUM = 0,
  TRC_MEAN = 1,
  TRC_MIN = 2,
  TRC_MAX = 3,
  TRC_PROD = 4,
  TRC_BAND = 5,
  TRC_BOR = 6,
  TRC_BXOR = 7,
  TRC_OP_RANGE = 0x7fffffff /* no operation, as above */
} trc_op;

typedef struct trc_world trc_world;
typedef struct trc_group trc_group; /* belongs to its world */

/* Set struct_size to sizeof of the struct; later versions add fields at the end. Zero means the default. */
typedef struct trc_options {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t op_timeout_ms;   /* of one operation */
  int64_t init_timeout_ms; /* until all ranks have met and are connected. A process that comes from an earlier
                            * generation waits for the others as long as the launcher does */
} trc_options;

typedef struct trc_error_info {
  uint32_t struct_size;
  int32_t status;         /* trc_status */
  uint32_t generation;    /* of the world; 0 outside one */
  int32_t culprit;        /* rank, or -1; of a time-out the one rank that is missing */
  uint64_t sequence;      /* number of the operation in its group, from 1; 0 outside operations */
  uint32_t missing_count; /* ranks that did not come and wait nowhere else; the first 64 are in `missing` */
  int32_t missing[64];
  char operation[32];
  char host[256]; /* the culprit's */
  char how[512];  /* how the culprit ended, or why the world did */
  char message[1024];
} trc_error_info;

/* Meets the other ranks. `options` may be null. */
TRC_API trc_status trc_world_init(const trc_options* options, trc_world** world);
/* The orderly end: waits until all ranks have called it (at most an operation's time), then leaves the job.
 * When not all come it fails, and this rank leaves at the end of its process. Works that go on end first;
 * when one of them, or anything before, has failed, this fails with the same error. A rank that is in another
 * operation of all (it has more steps to do) and those that finalize are told so after a second, not after an
 * operation's time: TRC_MISMATCH. */
TRC_API trc_status trc_world_finalize(trc_world* world);
/* Frees it; without a finalize before, waits for the other ranks for at most a second. When they do not come,
 * or a thread is in an operation, what the others may count on lives until the process ends: before that
 * nobody could tell them how it does. Null is allowed. */
TRC_API void trc_world_free(trc_world* world);

TRC_API int trc_rank(const trc_world* world);
TRC_API int trc_size(const trc_world* world);
TRC_API int trc_local_rank(const trc_world* world);
TRC_API int trc_local_size(const trc_world* world);
TRC_API uint32_t trc_generation(const trc_world* world);
/* The host of any rank; null for a rank that does not exist. Lives as long as the world. */
TRC_API const char* trc_host(const trc_world* world, int rank);

/* How the ranks exchange bytes: "shm" (memory of one host), "gloo" (TCP), "hier" (memory on each host, TCP
 * between hosts: where there are several, with as many ranks on each) or "local" (one rank). */
TRC_API const char* trc_backend(const trc_world* world);

/* All ranks of the world. */
TRC_API trc_group* trc_world_group(trc_world* world);
/* Some ranks of the world, which have operations of their own, beside those of the world and of other groups.
 * All members call it with the same ranks (their order does not matter), and make groups of the same ranks in
 * the same order; a rank that is none of them gets a null group and TRC_OK. Two ranks that wait for each
 * other in groups of different ranks, or several of which each waits for the next, get TRC_MISMATCH after
 * ten seconds or a little more; threads of a rank that make groups side by side must not leave each other
 * waiting that long. Ranks in a group are numbered from 0 in the order of their ranks in the world; errors
 * name ranks of the world. A failure in any group is one of the whole world. */
TRC_API trc_status trc_group_create(trc_world* world, const int* ranks, size_t count, trc_group** group);
/* Called by all members; waits for them. Groups that are not freed end with their world. Null is allowed. */
TRC_API trc_status trc_group_free(trc_group* group);
/* The same for members that do not wait for each other: this rank calls nothing more in it (the handle is
 * gone, as after trc_group_free; others that wait for this rank in it do so until their time has passed), and
 * what it has started goes on. What the group holds is given back once all members have left it and all that
 * they started has ended: by this, or when this rank makes or leaves another group. Not of a group on a
 * device. */
TRC_API trc_status trc_group_leave(trc_group* group);
TRC_API int trc_group_rank(const trc_group* group);
TRC_API int trc_group_size(const trc_group* group);

/* Operations. `count` is one of elements, of one rank's block where a buffer holds a block for each rank, one
 * after another in the order of the ranks. `in` and `out` may be the same buffer, or the smaller of them the
 * rank's own block of the larger, but not overlap otherwise. They need not be aligned. All ranks give the
 * same count, type, operation, factors and root: if not, all of them get TRC_MISMATCH and no buffer is
 * touched. */
TRC_API trc_status trc_allreduce(trc_group* group, const void* in, void* out, size_t count, trc_dtype dtype,
                                 trc_op op);
/* Each rank's elements are multiplied by `before` first, the results by `after`. For f16, bf16, f32, f64. */
TRC_API trc_status trc_allreduce_scaled(trc_group* group, const void* in, void* out, size_t count,
                                        trc_dtype dtype, trc_op op, double before, double after);
/* The result comes to `root` alone; `out` may be null elsewhere. */
TRC_API trc_status trc_reduce(trc_group* group, const void* in, void* out, size_t count, trc_dtype dtype,
                              trc_op op, int root);
/* `in` holds a block for each rank; each gets the reduction of those that are for it. */
TRC_API trc_status trc_reduce_scatter(trc_group* group, const void* in, void* out, size_t count,
                                      trc_dtype dtype, trc_op op);
TRC_API trc_status trc_broadcast(trc_group* group, void* data, size_t count, trc_dtype dtype, int root);
/* `out` holds a block of each rank. */
TRC_API trc_status trc_allgather(trc_group* group, const void* in, void* out, size_t count, trc_dtype dtype);
/* The same with blocks of different lengths: `counts` has that of each rank, and is the same on all. */
TRC_API trc_status trc_allgatherv(trc_group* group, const void* in, void* out, const uint64_t* counts,
                                  trc_dtype dtype);
/* `root` gets a block of each rank (`out`), or gives one to each (`in`); null is allowed elsewhere. */
TRC_API trc_status trc_gather(trc_group* group, const void* in, void* out, size_t count, trc_dtype dtype,
                              int root);
TRC_API trc_status trc_scatter(trc_group* group, const void* in, void* out, size_t count, trc_dtype dtype,
                               int root);
/* Each rank gives a block to each. */
TRC_API trc_status trc_alltoall(trc_group* group, const void* in, void* out, size_t count, trc_dtype dtype);
/* The same with blocks of different lengths: `in_counts` has that for each rank, `out_counts` that from each.
 * TRC_MISMATCH on all ranks if any two do not fit together. `in` and `out` must be different buffers. */
TRC_API trc_status trc_alltoallv(trc_group* group, const void* in, const uint64_t* in_counts, void* out,
                                 const uint64_t* out_counts, trc_dtype dtype);
TRC_API trc_status trc_barrier(trc_group* group);
/* This rank calls nothing more: until all ranks have called this it takes part, with zeros, in what those do
 * that have not. A mean is still one of all ranks. Only allreduces and barriers can go on so, others are
 * TRC_MISMATCH; each costs those ranks a round more as long as not all have joined. */
TRC_API trc_status trc_join(trc_group* group);
/* From one rank to another, which both call, with the same count and type, in the same order; the others do
 * not. A send may wait until the other rank receives. Both directions are apart: what two ranks send to each
 * other has no order. The first between two ranks also connects them. */
TRC_API trc_status trc_send(trc_group* group, const void* data, size_t count, trc_dtype dtype, int to);
TRC_API trc_status trc_recv(trc_group* group, void* data, size_t count, trc_dtype dtype, int from);

/* --- Elastic programs: the process goes on when ranks die, hosts come or go ---
 *
 * All that a rank must not lose is in a trc_state. The loop, for which C++ and Python have a function:
 *
 *   trc_status ended = TRC_OK;
 *   while (trc_elastic_form(elastic, state, ended, &world) == TRC_OK) {
 *     ended = trc_state_sync(state, world);
 *     if (ended == TRC_OK) ended = train(state, world);    // returns the status of the call that failed
 *     if (ended == TRC_OK) ended = trc_elastic_finish(elastic);
 *     if (!trc_elastic_goes_on(ended)) break;              // done, or a failure that stays one
 *   }
 */
typedef struct trc_state trc_state;
typedef struct trc_elastic trc_elastic;

TRC_API trc_status trc_state_new(trc_state** state);
TRC_API void trc_state_free(trc_state* state); /* null is allowed */
/* Memory of the program that belongs to the state. All ranks add the same names and sizes, before the first
 * save or sync. */
TRC_API trc_status trc_state_add(trc_state* state, const char* name, void* data, size_t bytes);
/* Bytes of any length, which the state keeps. The pointer that is given out is valid until the next call for
 * this state. */
TRC_API trc_status trc_state_add_blob(trc_state* state, const char* name);
TRC_API trc_status trc_state_set_blob(trc_state* state, const char* name, const void* data, size_t bytes);
TRC_API trc_status trc_state_get_blob(const trc_state* state, const char* name, const void** data,
                                      size_t* bytes);
/* The copy to which a failure leads back: taken, and put back. No rank waits for another. */
TRC_API trc_status trc_state_save(trc_state* state);
TRC_API trc_status trc_state_restore(trc_state* state);
/* Save, then trc_check_host_updates. */
TRC_API trc_status trc_state_commit(trc_state* state, trc_world* world);
/* All ranks get the state of one that has the newest saved one. TRC_MISMATCH names what was added
 * differently. */
TRC_API trc_status trc_state_sync(trc_state* state, trc_world* world);

/* All ranks call it at the same point: TRC_HOSTS_UPDATED on all when any has heard that hosts will come or
 * go, else TRC_OK. */
TRC_API trc_status trc_check_host_updates(trc_world* world);
/* Not 0: this rank has heard that it is to go. The others may not know. */
TRC_API int trc_should_stop(const trc_world* world);

/* `options` may be null. Nobody is met yet. */
TRC_API trc_status trc_elastic_new(const trc_options* options, trc_elastic** elastic);
/* Frees the last world as trc_world_free does. Null is allowed. */
TRC_API void trc_elastic_free(trc_elastic* elastic);
/* The world to work in. `ended` is how the work in the last one ended, TRC_OK for the first; it must be a
 * status for which trc_elastic_goes_on. After a failure the state is restored; then this waits for the place
 * in the next generation, and tries again there when that one fails as well, up to 100 times without a save.
 * The world belongs to `elastic` and lasts until the next call of this or of trc_elastic_free.
 * TRC_REMOVED: there is no place for this process any more. Any other failure is final; TRC_INVALID is that
 * of a rank that has left its world already (trc_elastic_finish, trc_world_finalize), which it meets once. */
TRC_API trc_status trc_elastic_form(trc_elastic* elastic, trc_state* state, trc_status ended,
                                    trc_world** world);
/* The orderly end of the last world, as trc_world_finalize. */
TRC_API trc_status trc_elastic_finish(trc_elastic* elastic);
/* Not 0: TRC_HOSTS_UPDATED, and failures that another generation can mend. */
TRC_API int trc_elastic_goes_on(trc_status status);

/* What a group has done last: for the question where ranks stand when they do not get on,
 * and for profiles. */
typedef enum trc_operation_state {
  TRC_RUNS = 0,
  TRC_DONE = 1,
  TRC_FAILED = 2 /* or it went once more, since a rank had joined */
} trc_operation_state;
typedef struct trc_operation {
  uint32_t struct_size;
  int32_t state;     /* trc_operation_state */
  uint64_t sequence; /* its number in the group, from 1; an operation may have several parts */
  uint64_t bytes;    /* of the buffer of one rank; of all, where ranks give different ones */
  int64_t begun_ns;  /* CLOCK_MONOTONIC */
  int64_t ended_ns;  /* 0 while it runs; below 64 KiB to some milliseconds */
  int32_t dtype;     /* trc_dtype */
  char name[20];     /* "allreduce" */
} trc_operation;
/* The last ones, the oldest first, at most `room` and at most 64; gives how many. `struct_size` of the first
 * must be set, and tells how far apart they lie. From any thread, also while an operation runs, and after the
 * world has failed. */
TRC_API size_t trc_group_recent(const trc_group* group, trc_operation* operations, size_t room);

/* Why the last call of this thread that failed did so. `info->struct_size` must be set. */
TRC_API trc_status trc_last_error(trc_error_info* info);
TRC_API const char* trc_status_name(trc_status status); /* "PeerLost" */

#ifdef __cplusplus
}
#endif
