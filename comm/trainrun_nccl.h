/* trainrun_nccl: groups of ranks whose buffers are on devices, over NCCL, and the unique ids of NCCL for
 * programs that call it themselves. trainrun_comm.h says what a world is.
 *
 * Neither NCCL nor CUDA is needed to build or to load this library. libnccl is the one that the program has
 * loaded, else that of the wheel beside its Python, else TRAINRUN_NCCL_LIB, else the system's (2.14 or
 * later); CUDA's driver is libcuda.so.1, or TRAINRUN_CUDA_LIB.
 *
 *   TRAINRUN_NCCL_ABORT_TIMEOUT  how long NCCL may take to let go of a communicator (default 10s)
 *   TRAINRUN_FUSION_BYTES  of the buffer on the device through which a group reduces lists of tensors, from
 *                          4096 (default 67108864); the same on all ranks
 */
#pragma once

#include "trainrun_comm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The bytes of an ncclUniqueId. */
typedef struct trc_nccl_id {
  char internal[128];
} trc_nccl_id;

/* How many ids a communicator of so many ranks has: one for each started 128. */
TRC_API size_t trc_nccl_id_count(size_t ranks);

/* Unique ids for one communicator of these ranks of the world, the same on all; with null and 0 of all ranks.
 * All of the ranks call it, as trc_group_create; ranks of the communicator are numbered in ascending order.
 * `room` is the room in `ids`, at least trc_nccl_id_count. They are for one attempt: a communicator that
 * fails needs others. The first of the ranks makes them, once all have the same version of NCCL:
 * TRC_MISMATCH on all ranks names ranks and versions if they do not, TRC_UNSUPPORTED those that have none;
 * the world goes on then. */
TRC_API trc_status trc_nccl_ids(trc_world* world, const int* ranks, size_t count, trc_nccl_id* ids,
                                size_t room);

/* A group as of trc_group_create, with null and 0 of all ranks, on this device of the process (its number
 * among those that CUDA_VISIBLE_DEVICES leaves). Its buffers are memory of the device; its operations are
 * enqueued on `stream`, a cudaStream_t or CUstream of that device (null: the default one), and return once
 * NCCL has taken them in. trc_barrier waits until all that was enqueued before it on the stream is done, on
 * all ranks, trc_nccl_wait until this rank's part is; buffers hold results then, or for what the program
 * enqueues on the same stream.
 *
 * Failures are those of trainrun_comm.h: a death is told as soon as the launcher knows of it, and ends what
 * the device waits for. Other than there, no rank hears beforehand whether all call the same: what does not
 * fit together ends when the operation's time has passed, and the next call says so, or gives wrong results
 * where only counts differ. TRC_DEVICE: NCCL or CUDA
 * failed here. TRC_RESTART_REQUIRED: the device is lost to this process, because NCCL did not let go of a
 * communicator in its time, or CUDA's context is broken. Sums of floats may differ in their last bits from
 * those of other groups. TRC_UNSUPPORTED: joins, bitwise operations, reductions of bool, means of
 * integers, factors of f64, and where trc_nccl_allreduce_list cannot be, all factors. */
TRC_API trc_status trc_nccl_group_create(trc_world* world, const int* ranks, size_t count, int device,
                                         void* stream, trc_group** group);
/* The same beside a group of the host (`of`; null: that of all ranks), for its ranks, or, where giver and
 * taker differ, for two of them by their numbers in it, for what the first gives to the second. They find
 * each other by that group and these numbers: so members may make such groups at different times, beside
 * other groups, and on several threads. Those of equal numbers beside one group, as for several devices of a
 * process, are made in one order by all. */
TRC_API trc_status trc_nccl_beside(trc_world* world, trc_group* of, int giver, int taker, int device,
                                   void* stream, trc_group** group);
/* What follows is enqueued there. TRC_INVALID for a group that is on no device. */
TRC_API trc_status trc_nccl_use_stream(trc_group* group, void* stream);

/* Waits until this event has happened, a cudaEvent_t or CUevent that the program has recorded behind its
 * operations, on the group's stream or on one that waits for that; on this rank alone, and without the
 * others. TRC_OK: what was enqueued before it was carried out to the end. Else as of an operation: a death
 * cuts short what waits for the dead rank, events behind it happen all the same, and buffers hold anything
 * then. */
TRC_API trc_status trc_nccl_wait(trc_group* group, void* event);

/* A tensor of the group's device. `in` and `out` hold `count` elements; they may be the same, and are aligned
 * to their elements. */
typedef struct trc_nccl_tensor {
  const void* in;
  void* out;
  size_t count;
  trc_dtype dtype; /* TRC_F16, TRC_BF16 or TRC_F32 */
} trc_nccl_tensor;

/* One allreduce of all elements of a list of tensors, enqueued as the others. They are cast to `wire` (any of
 * these types), times `before`, beside each other in a buffer of the group's; what NCCL makes of that is
 * cast back, times `after`, into `out`. Casts go to the nearest, halfway to even, and factors are applied in
 * f32. `op` is a sum, mean, minimum, maximum or product, formed in `wire`: f16 ends at 65504. Nothing that is
 * written may lie in another tensor of the list. All ranks give the same counts in the same order; their own
 * types may differ.
 *
 * A list that is larger than the buffer (TRAINRUN_FUSION_BYTES) goes in several rounds. The buffer is
 * allocated by the first such call and freed with the group; a stream that trc_nccl_use_stream names waits
 * until the one before has done with it. A factor of trc_allreduce_scaled goes the same way. TRC_UNSUPPORTED,
 * before anything is enqueued: this library was built without CUDA kernels, the device or its driver cannot
 * load them, the group is on no device, or a type is another one. A rank hears that of itself alone;
 * trc_describe_host tells what the library was built for. */
TRC_API trc_status trc_nccl_allreduce_list(trc_group* group, const trc_nccl_tensor* tensors, size_t count,
                                           trc_dtype wire, trc_op op, double before, double after);

/* For interpreters: where the libnccl is that the program would load, before the first call that needs one.
 */
TRC_API trc_status trc_nccl_look_at(const char* path);

/* What this library and this host can do, for people or as JSON: backends, processor, shared memory, NCCL,
 * CUDA. Valid until the next call of this thread; null without memory. Loads NCCL and CUDA's driver. */
TRC_API const char* trc_describe_host(int json);

#ifdef __cplusplus
}
#endif
