/* trainrun_comm: collective operations among the ranks of a job, C interface. Everything that
 * libtrainrun_comm.so exports is declared here; trainrun_comm.hpp is a C++ layer over it.
 *
 * Where a process gets its place from (set by trainrun, or by hand next to `trainrun rendezvous`):
 *   TRAINRUN_RENDEZVOUS  HOST:PORT of the rendezvous server; without it the world is this process alone
 *   TRAINRUN_KEY_FILE    file with the job's key, mode 0600
 *   TRAINRUN_RANK        0..size-1; without it ranks are given in the order of arrival
 *   TRAINRUN_SIZE        number of ranks; checked against the server's
 *   TRAINRUN_GENERATION  number of the world (default 1)
 *   TRAINRUN_ADDRESS     numeric address at which the other ranks reach this one (default: that of the
 *                        connection to the server)
 *   TRAINRUN_HOST        name of this host for messages (default: its hostname)
 *   TRAINRUN_OP_TIMEOUT, TRAINRUN_INIT_TIMEOUT   times like 90, 2m (defaults 5m, 2m); options go before them
 *
 * Failure. When a rank dies, every other rank's operation, also one that runs, fails within about a second
 * with TRC_PEER_LOST, and trc_last_error names the rank, its host and how it ended. After any failure but
 * TRC_INVALID and TRC_UNSUPPORTED the world is over: every later operation fails at once with the same error,
 * and buffers of failed operations have undefined content. The library never ends the process.
 *
 * Threads. Operations of one group run one after another, in the order in which they are called; all ranks
 * must call the same operations in the same order. A call from several threads at once is safe but has no
 * order. While a world of more than one rank lives, SIGPIPE is ignored if its disposition was the default. */
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
  TRC_INTERNAL = 8     /* our own fault, or no memory */
} trc_status;

typedef enum trc_dtype {
  TRC_U8 = 0,
  TRC_I8 = 1,
  TRC_I32 = 2,
  TRC_I64 = 3,
  TRC_F32 = 4,
  TRC_F64 = 5,
  TRC_DTYPE_RANGE =
      0x7fffffff /* no type: gives the enum the range of an int, so that any number is defined */
} trc_dtype;

/* The mean of integers is cut towards zero; their sums and products wrap. */
typedef enum trc_op {
  TRC_SUM = 0,
  TRC_MEAN = 1,
  TRC_MIN = 2,
  TRC_MAX = 3,
  TRC_PROD = 4,
  TRC_OP_RANGE = 0x7fffffff /* no operation, as above */
} trc_op;

typedef struct trc_world trc_world;
typedef struct trc_group trc_group; /* belongs to its world */

/* Set struct_size to sizeof of the struct; later versions add fields at the end. Zero means the default. */
typedef struct trc_options {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t op_timeout_ms;   /* of one operation */
  int64_t init_timeout_ms; /* until all ranks have met and are connected */
} trc_options;

typedef struct trc_error_info {
  uint32_t struct_size;
  int32_t status; /* trc_status */
  uint32_t generation;
  int32_t culprit;        /* rank, or -1 */
  uint64_t sequence;      /* number of the operation in its group, from 1; 0 outside operations */
  uint32_t missing_count; /* ranks that did not come; the first 64 are in `missing` */
  int32_t missing[64];
  char operation[32];
  char host[256]; /* the culprit's */
  char how[512];  /* how the culprit ended */
  char message[1024];
} trc_error_info;

/* Meets the other ranks. `options` may be null. */
TRC_API trc_status trc_world_init(const trc_options* options, trc_world** world);
/* The orderly end: waits until all ranks have called it (at most an operation's time), then leaves the job.
 */
TRC_API trc_status trc_world_finalize(trc_world* world);
/* Frees it; without a finalize before, waits for the other ranks for at most a second. Null is allowed. */
TRC_API void trc_world_free(trc_world* world);

TRC_API int trc_rank(const trc_world* world);
TRC_API int trc_size(const trc_world* world);
TRC_API int trc_local_rank(const trc_world* world);
TRC_API int trc_local_size(const trc_world* world);
TRC_API uint32_t trc_generation(const trc_world* world);
/* The host of any rank; null for a rank that does not exist. Lives as long as the world. */
TRC_API const char* trc_host(const trc_world* world, int rank);

/* All ranks of the world. */
TRC_API trc_group* trc_world_group(trc_world* world);

/* `in` and `out` hold `count` elements and may be the same buffer, but not overlap otherwise. */
TRC_API trc_status trc_allreduce(trc_group* group, const void* in, void* out, size_t count, trc_dtype dtype,
                                 trc_op op);
TRC_API trc_status trc_broadcast(trc_group* group, void* data, size_t count, trc_dtype dtype, int root);
/* `in` holds `count` elements, `out` size x count, in the order of the ranks. */
TRC_API trc_status trc_allgather(trc_group* group, const void* in, void* out, size_t count, trc_dtype dtype);
TRC_API trc_status trc_barrier(trc_group* group);

/* Why the last call of this thread that failed did so. `info->struct_size` must be set. */
TRC_API trc_status trc_last_error(trc_error_info* info);
TRC_API const char* trc_status_name(trc_status status); /* "PeerLost" */

#ifdef __cplusplus
}
#endif
