/* A forked child is not checked for leaks: what only a thread of its parent held looks leaked to it, and it
 * has no way to give that back. LeakSanitizer asks this function at an exit; without that sanitizer nobody
 * does. */
#include <pthread.h>

int __lsan_is_turned_off(void);

static int forked;

static void in_child(void) { forked = 1; }

__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, in_child); }

int __lsan_is_turned_off(void) { return forked; }
