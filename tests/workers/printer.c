/* A program that leaves its output to the C library, as programs of C and Fortran do.
 *
 *   wait        prints a line, and waits until it is ended
 *   order N     prints N lines
 *   big N       prints N lines of 100 bytes, each with its number
 *   child       leaves a child that holds stdout, prints a line and ends
 *   terminal    what stdin, stdout and stderr are, and whether there is a controlling terminal
 *   copy        stdin to stdout
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char** argv) {
  const char* verb = argc > 1 ? argv[1] : "";
  const long count = argc > 2 ? atol(argv[2]) : 0;
  if (strcmp(verb, "wait") == 0) {
    printf("printed\n");
    for (;;) pause();
  } else if (strcmp(verb, "order") == 0) {
    for (long i = 0; i < count; ++i) printf("line %ld\n", i);
  } else if (strcmp(verb, "big") == 0) {
    for (long i = 0; i < count; ++i) printf("%099ld\n", i);
  } else if (strcmp(verb, "child") == 0) {
    if (fork() == 0) {
      for (;;) pause();
    }
    printf("parent ends\n");
  } else if (strcmp(verb, "terminal") == 0) {
    printf("terminals %d%d%d\n", isatty(0), isatty(1), isatty(2));
    const int own = open("/dev/tty", O_RDWR);
    printf("controlling %s\n", own >= 0 ? "yes" : strerror(errno));
    printf("tab\tand\rreturn\n");
  } else if (strcmp(verb, "copy") == 0) {
    for (int c; (c = getchar()) != EOF;) putchar(c);
  }
  return 0;
}
