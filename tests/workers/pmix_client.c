/* A rank that speaks PMIx, and nothing else of MPI: what Open MPI's MPI_Init and MPI_Finalize say to a
 * launcher, without their cost, stopped where a test wants it.
 *
 *   meet [ROUNDS]          put, fence with data, get everybody's, in rounds; finalize
 *   direct                 put, fence without data, get everybody's: each from its own host's server
 *   half                   as meet, but the even and the odd ranks have fences of their own
 *   first-without RANK     all but RANK wait in the first fence; it says "ready PID" and does nothing
 *   last-without RANK      as meet, but RANK does nothing before the last fence, in which the others wait
 *   leave RANK             as first-without, but RANK exits with 0 when it reads a line
 *   desert RANK            RANK says init and exits with 0; the others meet without it
 *   abort RANK CODE        PMIx_Abort by RANK, while the others wait for it
 *   log TEXT               TEXT to the launcher, for stderr
 *   publish                asks for what a launcher may refuse
 *   tell                   what the server says about this rank and its world
 *
 * Who waits says "waiting PID" first. A fence that fails is told ("failed: WHY"), and ends it with 9.
 */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pmix_proc_t me;
static unsigned size;

static void die(const char* what, pmix_status_t status) {
  printf("%s: %s\n", what, PMIx_Error_string(status));
  fflush(stdout);
  _exit(7);
}

static void must(const char* what, pmix_status_t status) {
  if (status != PMIX_SUCCESS) die(what, status);
}

static void say(const char* what) {
  printf("%s %d\n", what, (int)getpid());
  fflush(stdout);
}

static void stay(void) {
  say("ready");
  for (;;) pause();
}

static void init(void) {
  must("PMIx_Init", PMIx_Init(&me, NULL, 0));
  pmix_proc_t all = me;
  pmix_value_t* value = NULL;
  all.rank = PMIX_RANK_WILDCARD;
  must("PMIX_JOB_SIZE", PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &value));
  size = value->data.uint32;
}

static void fence(const pmix_proc_t* who, size_t count, int collect, int tell) {
  pmix_info_t info;
  bool yes = collect != 0;
  PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
  if (tell) say("waiting");
  const pmix_status_t status = PMIx_Fence(who, count, &info, 1);
  if (status == PMIX_SUCCESS) return;
  printf("failed: %s\n", PMIx_Error_string(status));
  fflush(stdout);
  _exit(9);
}

static void text_of(char* text, size_t room, int round, unsigned rank) {
  snprintf(text, room, "round %d of %u", round, rank);
}

/* Every rank's that is `step` ranks from the next. */
static void meet(int rounds, int collect, unsigned step) {
  pmix_proc_t* who = NULL;
  size_t count = 0;
  if (step > 1) {
    who = calloc(size, sizeof *who);
    for (unsigned rank = me.rank % step; rank < size; rank += step) {
      who[count] = me;
      who[count++].rank = rank;
    }
  }
  for (int round = 0; round < rounds; ++round) {
    char key[64], text[64];
    pmix_value_t value;
    snprintf(key, sizeof key, "test.%d", round);
    text_of(text, sizeof text, round, me.rank);
    value.type = PMIX_STRING;
    value.data.string = text;
    must("PMIx_Put", PMIx_Put(PMIX_GLOBAL, key, &value));
    must("PMIx_Commit", PMIx_Commit());
    fence(who, count, collect, 0);
    for (unsigned rank = me.rank % step; rank < size; rank += step) {
      pmix_proc_t other = me;
      pmix_value_t* got = NULL;
      other.rank = rank;
      must(key, PMIx_Get(&other, key, NULL, 0, &got));
      text_of(text, sizeof text, round, rank);
      if (got->type != PMIX_STRING || strcmp(got->data.string, text) != 0) die("another text", PMIX_ERROR);
    }
  }
  free(who);
}

static void tell_one(const char* key, unsigned rank) {
  pmix_proc_t of = me;
  pmix_value_t* value = NULL;
  of.rank = rank;
  const pmix_status_t status = PMIx_Get(&of, key, NULL, 0, &value);
  if (status != PMIX_SUCCESS) {
    printf("%s none\n", key);
  } else if (value->type == PMIX_STRING) {
    printf("%s '%s'\n", key, value->data.string);
  } else if (value->type == PMIX_UINT16) {
    printf("%s %u:16\n", key, value->data.uint16);
  } else {
    printf("%s %u:32\n", key, value->data.uint32);
  }
}

static void tell(void) {
  const char* const of_job[] = {PMIX_JOB_SIZE,     PMIX_UNIV_SIZE,  PMIX_MAX_PROCS,  PMIX_NUM_NODES,
                                PMIX_JOB_NUM_APPS, PMIX_LOCAL_SIZE, PMIX_LOCAL_PEERS};
  const char* const of_rank[] = {PMIX_LOCAL_RANK,  PMIX_NODE_RANK,      PMIX_APPNUM,   PMIX_APP_RANK,
                                 PMIX_GLOBAL_RANK, PMIX_NODEID,         PMIX_HOSTNAME, PMIX_REINCARNATION,
                                 PMIX_CPUSET,      PMIX_LOCALITY_STRING};
  printf("namespace %s\n", me.nspace);
  for (size_t i = 0; i < sizeof of_job / sizeof *of_job; ++i) tell_one(of_job[i], PMIX_RANK_WILDCARD);
  for (size_t i = 0; i < sizeof of_rank / sizeof *of_rank; ++i) tell_one(of_rank[i], me.rank);
}

int main(int argc, char** argv) {
  const char* verb = argc > 1 ? argv[1] : "meet";
  const char* own = getenv("PMIX_RANK");
  if (own == NULL) {
    puts("no PMIx");
    return 5;
  }
  const int chosen = argc > 2 && strcmp(argv[2], own) == 0;
  if (chosen && strcmp(verb, "first-without") == 0) stay();
  if (chosen && strcmp(verb, "leave") == 0) {
    char line[80];
    say("ready");
    return fgets(line, sizeof line, stdin) == NULL;
  }
  init();
  if (strcmp(verb, "desert") == 0) {
    if (chosen) _exit(0);
    fence(NULL, 0, 1, 1);
  } else if (strcmp(verb, "first-without") == 0 || strcmp(verb, "leave") == 0) {
    fence(NULL, 0, 1, 1);
  } else if (strcmp(verb, "last-without") == 0) {
    meet(1, 1, 1);
    if (chosen) stay();
    fence(NULL, 0, 0, 1);
  } else if (strcmp(verb, "abort") == 0) {
    if (chosen) PMIx_Abort(argc > 3 ? atoi(argv[3]) : 1, "enough", NULL, 0);
    fence(NULL, 0, 1, 1);
  } else if (strcmp(verb, "log") == 0) {
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, PMIX_LOG_STDERR, argv[2], PMIX_STRING);
    must("PMIx_Log", PMIx_Log(&info, 1, NULL, 0));
  } else if (strcmp(verb, "publish") == 0) {
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, "test.name", "value", PMIX_STRING);
    printf("%s\n", PMIx_Error_string(PMIx_Publish(&info, 1)));
  } else if (strcmp(verb, "tell") == 0) {
    tell();
  } else {
    meet(argc > 2 ? atoi(argv[2]) : 1, strcmp(verb, "direct") != 0, strcmp(verb, "half") == 0 ? 2 : 1);
    fence(NULL, 0, 0, 0);
  }
  fflush(stdout);
  must("PMIx_Finalize", PMIx_Finalize(NULL, 0));
  return 0;
}
