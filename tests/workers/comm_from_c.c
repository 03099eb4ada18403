/* The C interface, compiled as C: a world of one, its operations, and what an error tells. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trainrun_comm.h"

#define EXPECT(condition)                                                  \
  do {                                                                     \
    if (!(condition)) {                                                    \
      printf("%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
      return 1;                                                            \
    }                                                                      \
  } while (0)

/* In a forked child nothing of the parent's world is touched. */
static int refuse_everything(trc_world* world) {
  trc_error_info info = {0};
  double value = 1;
  EXPECT(trc_allreduce(trc_world_group(world), &value, &value, 1, TRC_F64, TRC_SUM) == TRC_INVALID);
  info.struct_size = sizeof info;
  EXPECT(trc_last_error(&info) == TRC_OK && strstr(info.message, "forked") != NULL);
  EXPECT(trc_barrier(trc_world_group(world)) == TRC_INVALID);
  EXPECT(trc_check_host_updates(world) == TRC_INVALID && trc_should_stop(world) == 0);
  EXPECT(trc_world_finalize(world) == TRC_INVALID);
  EXPECT(trc_rank(world) == 0);
  trc_world_free(world);
  return 0;
}

int main(void) {
  pid_t child;
  int ended = -1;
  trc_options options = {0};
  trc_error_info info = {0};
  trc_world* world = NULL;
  double values[2] = {1, 2}, out[2] = {0, 0};
  trc_operation recent[3] = {{0}};

  info.struct_size = sizeof info;
  EXPECT(trc_last_error(&info) == TRC_OK && info.status == TRC_OK && info.culprit == -1); /* none so far */
  info.struct_size = 0;
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
  EXPECT(trc_join(trc_world_group(world)) == TRC_OK);
  recent[0].struct_size = 8;
  EXPECT(trc_group_recent(trc_world_group(world), recent, 3) == 0); /* it knows no struct of that size */
  recent[0].struct_size = sizeof recent[0];
  EXPECT(trc_group_recent(trc_world_group(world), recent, 3) == 3);
  EXPECT(strcmp(recent[0].name, "allgather") == 0 && recent[0].bytes == 16 && recent[0].sequence == 2);
  EXPECT(strcmp(recent[2].name, "join") == 0 && recent[2].state == TRC_DONE);

  EXPECT(trc_broadcast(trc_world_group(world), values, 2, TRC_F64, 3) == TRC_INVALID);
  EXPECT(trc_last_error(&info) == TRC_INVALID); /* struct_size is not set */
  info.struct_size = sizeof info;
  EXPECT(trc_last_error(&info) == TRC_OK);
  EXPECT(info.status == TRC_INVALID && info.culprit == -1 && info.missing_count == 0);
  EXPECT(info.generation == trc_generation(world));
  EXPECT(strstr(info.message, "rank 3") != NULL);
  info.struct_size = 8; /* an older caller gets what it knows, and no byte more */
  info.generation = 77;
  EXPECT(trc_last_error(&info) == TRC_OK && info.generation == 77);
  EXPECT(strcmp(trc_status_name(TRC_PEER_LOST), "PeerLost") == 0);
  EXPECT(trc_allreduce(NULL, values, out, 2, TRC_F64, TRC_SUM) == TRC_INVALID);

  child = fork();
  EXPECT(child >= 0);
  if (child == 0) exit(refuse_everything(world));
  EXPECT(waitpid(child, &ended, 0) == child && ended == 0);

  EXPECT(trc_world_finalize(world) == TRC_OK);
  EXPECT(trc_world_finalize(world) == TRC_OK);
  trc_world_free(world);
  trc_world_free(NULL);
  return 0;
}
