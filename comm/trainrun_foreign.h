/* trainrun_foreign: for programs whose ranks exchange their data through another library, PyTorch's Gloo, and
 * take their membership from here. trainrun_comm.h says what a world is.
 *
 * Such a library does not hear that a rank has died: its operations wait, for a connection that a child of
 * the dead rank holds open, or for a rank that is stopped. It is told by its sockets: with
 * trc_foreign_sockets the program says where the library listens, and as soon as the launcher ends the
 * generation a thread of ours shuts every connection of the group, so that operations fail within
 * milliseconds. The program then asks trc_foreign_failed why, and goes on with trc_elastic_form. */
#pragma once

#include "trainrun_comm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Numeric HOST:PORT or [HOST]:PORT where the library listens, in this process and in the other members. When
 * the generation ends, connections are shut whose own end is one of the first or whose far end is one of the
 * second; no other socket is touched. A later call replaces what an earlier one said. Without a launcher
 * nothing happens. */
TRC_API trc_status trc_foreign_sockets(trc_world* world, const char* const* own, size_t own_count,
                                       const char* const* peers, size_t peer_count);
/* An operation of the library failed, which said `text`: why, as an operation of trainrun_comm.h would tell
 * it. Never TRC_OK. When nobody knows of a death, the other ranks are waited for and told. */
TRC_API trc_status trc_foreign_failed(trc_world* world, const char* operation, const char* text,
                                      int timed_out);
/* TRC_OK as long as the generation goes on, as far as is known here; else how it ended. */
TRC_API trc_status trc_foreign_over(trc_world* world);

/* Progress: from now on steps alone count as such, from the first one in each world on. 0: none so far. */
TRC_API trc_status trc_foreign_steps(trc_world* world, uint64_t done);
/* Not 0: the program does something else than steps for a while, and none is expected. */
TRC_API trc_status trc_foreign_pause(trc_world* world, int on);

/* Values that the members of a generation tell each other; each generation begins with none. A wait ends when
 * the generation does. What is given out is valid until the next call of this thread. */
TRC_API trc_status trc_foreign_put(trc_world* world, const char* key, const void* data, size_t bytes);
/* Sets it if it is `expected`, or if it does not exist and nothing is expected; gives the value afterwards.
 */
TRC_API trc_status trc_foreign_compare_and_set(trc_world* world, const char* key, const void* expected,
                                               size_t expected_bytes, const void* desired, size_t bytes,
                                               const void** data, size_t* data_bytes);
TRC_API trc_status trc_foreign_get(trc_world* world, const char* key, int64_t wait_ms, const void** data,
                                   size_t* bytes);

#ifdef __cplusplus
}
#endif
