/* trainrun_work: operations that go on while the program does something else. The works of a group run one
 * after another, on a thread of the library, in the order in which they are started; those of several groups
 * at once. A send waits for nothing but the sends to the same rank before it, a receive for the receives from
 * the same.
 *
 *   trc_call call = {sizeof call, TRC_CALL_ALLREDUCE, TRC_F32, TRC_MEAN};
 *   call.in = in, call.out = out, call.count = count;
 *   trc_work* work;
 *   trc_start(group, &call, 1, NULL, 0, &work);
 *   ...                                              // neither touches `in` nor `out`
 *   trc_status status = trc_work_wait(work, -1);     // TRC_PEER_LOST, ... and trc_last_error says why
 *   trc_work_free(work);
 *
 * Buffers must stay, and stay untouched, until the work has ended. A call that waits (trc_allreduce, ...) in
 * the same group comes after the works that were started before it. Failures are those of trainrun_comm.h: a
 * death ends every work that has not ended, at once, and TRC_INVALID comes from the wait where an operation
 * refuses what it was given. The time of an operation begins when its turn comes.
 *
 * trc_group_free and trc_world_finalize wait for the works of their groups; trc_world_free gives those that
 * run a third of a second, and refuses with TRC_ABORTED what has not begun. In a forked child nothing is
 * started, has ended or is waited for.
 */
#pragma once

#include "trainrun_comm.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct trc_work trc_work;
typedef struct trc_completions trc_completions;

typedef enum trc_call_kind {
  TRC_CALL_ALLREDUCE = 0,
  TRC_CALL_REDUCE = 1,
  TRC_CALL_REDUCE_SCATTER = 2,
  TRC_CALL_BROADCAST = 3, /* of `out` */
  TRC_CALL_ALLGATHER = 4,
  TRC_CALL_ALLGATHERV = 5, /* `out_counts` */
  TRC_CALL_GATHER = 6,
  TRC_CALL_SCATTER = 7,
  TRC_CALL_ALLTOALL = 8,
  TRC_CALL_ALLTOALLV = 9, /* `in_counts`, `out_counts` */
  TRC_CALL_BARRIER = 10,
  TRC_CALL_SEND = 11, /* `in`, to the rank `root` */
  TRC_CALL_RECV = 12, /* `out`, from the rank `root` */
  TRC_CALL_JOIN = 13
} trc_call_kind;

/* What the function of the same name takes; what it does not take is left out. */
typedef struct trc_call {
  uint32_t struct_size;
  int32_t kind;  /* trc_call_kind */
  int32_t dtype; /* trc_dtype */
  int32_t op;    /* trc_op */
  int32_t root;
  uint32_t name; /* of what is called by a name, a hash of it below 2^24: ranks whose names differ get
                    TRC_MISMATCH; 0: none. Sends, receives and joins have none */
  const void* in;
  void* out;
  uint64_t count;
  double before, after;                   /* factors of an allreduce; both 0: none */
  const uint64_t *in_counts, *out_counts; /* one a rank; copied before trc_start returns */
} trc_call;

/* Starts a work of one or several calls, which run one after another; the first that fails is the work's
 * failure, and the rest is not begun. Either all of them are sends to one rank, or receives from one, or none
 * is. With `completions` its end is told there too, by `tag`. */
TRC_API trc_status trc_start(trc_group* group, const trc_call* calls, size_t count,
                             trc_completions* completions, uint64_t tag, trc_work** work);
/* The same without a work: in this thread, after what was started before, until the end. */
TRC_API trc_status trc_run(trc_group* group, const trc_call* calls, size_t count);
/* Not 0: it has ended, well or not. */
TRC_API int trc_work_ended(const trc_work* work);
/* When its turn came and when it ended, by CLOCK_MONOTONIC in nanoseconds; 0: not yet, or never begun. */
TRC_API void trc_work_times(const trc_work* work, int64_t* begun_ns, int64_t* ended_ns);
/* Waits until it has ended, at most so long (below 0: however long it takes), and says how: the same each
 * time. TRC_TIMEOUT while trc_work_ended is 0: it goes on. */
TRC_API trc_status trc_work_wait(trc_work* work, int64_t timeout_ms);
/* What it does goes on. Null is allowed. */
TRC_API void trc_work_free(trc_work* work);

/* For one thread that hears of the ends of many works. */
TRC_API trc_status trc_completions_new(trc_completions** completions);
/* An eventfd, readable while there are ends that have not been told; only to wait for (poll, epoll), not to
 * read. */
TRC_API int trc_completions_descriptor(const trc_completions* completions);
/* 1, and the tag of one more work that has ended; 0: there is none now. */
TRC_API int trc_completions_next(trc_completions* completions, uint64_t* tag);
/* Works that still tell it keep it alive inside. Null is allowed. */
TRC_API void trc_completions_free(trc_completions* completions);

#ifdef __cplusplus
}
#endif
