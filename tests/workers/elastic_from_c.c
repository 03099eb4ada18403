/* The elastic part of the C interface, compiled as C: the loop of trainrun_comm.h in a world of one. */
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

static double weights[2] = {1, 2};
static int64_t step = 0;

static trc_status train(trc_state* state, trc_world* world) {
  while (step < 5) {
    trc_status status = trc_allreduce(trc_world_group(world), weights, weights, 2, TRC_F64, TRC_SUM);
    if (status != TRC_OK) return status;
    ++weights[0];
    ++step; /* before the commit, which says so that it is done */
    if (step % 2 == 0) status = trc_state_commit(state, world);
    if (status != TRC_OK) return status;
  }
  return trc_check_host_updates(world);
}

int main(void) {
  trc_elastic* elastic = NULL;
  trc_state* state = NULL;
  trc_world* world = NULL;
  trc_error_info info = {0};
  const void* blob = NULL;
  size_t size = 0;
  trc_status ended = TRC_OK;
  int worlds = 0;

  EXPECT(trc_elastic_new(NULL, NULL) == TRC_INVALID);
  EXPECT(trc_elastic_new(NULL, &elastic) == TRC_OK);
  EXPECT(trc_state_new(&state) == TRC_OK);
  EXPECT(trc_state_add(state, "weights", weights, sizeof weights) == TRC_OK);
  EXPECT(trc_state_add(state, "weights", weights, sizeof weights) == TRC_INVALID);
  EXPECT(trc_state_add(state, "step", &step, sizeof step) == TRC_OK);
  EXPECT(trc_state_add_blob(state, "name") == TRC_OK);
  EXPECT(trc_state_set_blob(state, "name", "a\0b", 3) == TRC_OK);

  while (trc_elastic_form(elastic, state, ended, &world) == TRC_OK) {
    ++worlds;
    EXPECT(trc_size(world) == 1 && !trc_should_stop(world));
    ended = trc_state_sync(state, world);
    if (ended == TRC_OK) ended = train(state, world);
    if (ended == TRC_OK) ended = trc_elastic_finish(elastic);
    if (!trc_elastic_goes_on(ended)) break;
  }
  EXPECT(worlds == 1 && ended == TRC_OK && step == 5);
  /* What a failure leads back to goes on without doing a step twice. */
  EXPECT(trc_state_restore(state) == TRC_OK && step == 4 && weights[0] == 5);
  while (step < 5) ++weights[0], ++step;
  EXPECT(weights[0] == 6);
  EXPECT(trc_state_get_blob(state, "name", &blob, &size) == TRC_OK);
  EXPECT(size == 3 && memcmp(blob, "a\0b", 3) == 0);
  EXPECT(trc_state_get_blob(state, "step", &blob, &size) == TRC_INVALID);

  /* Without a launcher there is no way on, and the reason is told. */
  EXPECT(trc_elastic_form(elastic, state, TRC_PEER_LOST, &world) == TRC_PEER_LOST && world == NULL);
  info.struct_size = sizeof info;
  EXPECT(trc_last_error(&info) == TRC_OK && strstr(info.message, "not started by a launcher") != NULL);
  EXPECT(trc_elastic_goes_on(TRC_HOSTS_UPDATED) && trc_elastic_goes_on(TRC_TIMEOUT));
  EXPECT(!trc_elastic_goes_on(TRC_MISMATCH) && !trc_elastic_goes_on(TRC_REMOVED) &&
         !trc_elastic_goes_on(TRC_OK));
  EXPECT(strcmp(trc_status_name(TRC_HOSTS_UPDATED), "HostsUpdated") == 0);

  trc_state_free(state);
  trc_elastic_free(elastic);
  trc_state_free(NULL);
  trc_elastic_free(NULL);
  return 0;
}
