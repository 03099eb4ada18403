/* Each rank gets the unique id of one NCCL communicator of all of them, and says what it begins with. A
 * program that is linked with NCCL goes on as
 *
 *   ncclUniqueId id;
 *   memcpy(&id, ids, sizeof id);
 *   ncclCommInitRank(&communicator, trc_size(world), id, trc_rank(world));
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainrun_nccl.h"

static int failed(const char* what) {
  trc_error_info why;
  memset(&why, 0, sizeof why);
  why.struct_size = sizeof why;
  trc_last_error(&why);
  fprintf(stderr, "%s: %s: %s\n", what, trc_status_name((trc_status)why.status), why.message);
  return 1;
}

int main(void) {
  trc_world* world = NULL;
  if (trc_world_init(NULL, &world) != TRC_OK) return failed("trc_world_init");
  size_t count = trc_nccl_id_count((size_t)trc_size(world));
  trc_nccl_id* ids = calloc(count, sizeof *ids);
  if (ids == NULL || trc_nccl_ids(world, NULL, 0, ids, count) != TRC_OK) {
    int rc = failed("trc_nccl_ids");
    free(ids);
    trc_world_free(world);
    return rc;
  }
  printf("rank %d of %d: id", trc_rank(world), trc_size(world));
  for (int i = 0; i < 16; ++i) printf(" %02x", (unsigned char)ids[0].internal[i]);
  printf("\n");
  free(ids);
  int rc = trc_world_finalize(world) == TRC_OK ? 0 : failed("trc_world_finalize");
  trc_world_free(world);
  return rc;
}
