/* The C interface, compiled as C: a world of one, its operations, and what an error tells. */
#include <stdio.h>
#include <string.h>

#include "trainrun_comm.h"

#define EXPECT(condition)                                                  \
  do {                                                                     \
    if (!(condition)) {                                                    \
      printf("%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
      return 1;                                                            \
    }                                                                      \
  } while (0)

int main(void) {
  trc_options options = {0};
  trc_error_info info = {0};
  trc_world* world = NULL;
  double values[2] = {1, 2}, out[2] = {0, 0};

  EXPECT(trc_world_init(&options, &world) == TRC_INVALID); /* struct_size is not set */
  EXPECT(world == NULL);
  options.struct_size = sizeof options;
  EXPECT(trc_world_init(&options, &world) == TRC_OK);
  EXPECT(trc_rank(world) == 0 && trc_size(world) == 1 && trc_local_rank(world) == 0 &&
         trc_local_size(world) == 1);
  EXPECT(trc_generation(world) == 1);
  EXPECT(trc_host(world, 0) != NULL && trc_host(world, 1) == NULL && trc_host(world, -1) == NULL);
  EXPECT(trc_allreduce(trc_world_group(world), values, out, 2, TRC_F64, TRC_MEAN) == TRC_OK);
  EXPECT(out[0] == 1 && out[1] == 2);
  EXPECT(trc_allgather(trc_world_group(world), values, out, 2, TRC_F64) == TRC_OK);
  EXPECT(trc_barrier(trc_world_group(world)) == TRC_OK);

  EXPECT(trc_broadcast(trc_world_group(world), values, 2, TRC_F64, 3) == TRC_INVALID);
  EXPECT(trc_last_error(&info) == TRC_INVALID); /* struct_size is not set */
  info.struct_size = sizeof info;
  EXPECT(trc_last_error(&info) == TRC_OK);
  EXPECT(info.status == TRC_INVALID && info.culprit == -1 && info.missing_count == 0);
  EXPECT(strstr(info.message, "rank 3") != NULL);
  info.struct_size = 8; /* an older caller gets what it knows, and no byte more */
  info.generation = 77;
  EXPECT(trc_last_error(&info) == TRC_OK && info.generation == 77);
  EXPECT(strcmp(trc_status_name(TRC_PEER_LOST), "PeerLost") == 0);
  EXPECT(trc_allreduce(NULL, values, out, 2, TRC_F64, TRC_SUM) == TRC_INVALID);

  EXPECT(trc_world_finalize(world) == TRC_OK);
  EXPECT(trc_world_finalize(world) == TRC_OK);
  trc_world_free(world);
  trc_world_free(NULL);
  return 0;
}
