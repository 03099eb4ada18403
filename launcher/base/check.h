// A broken invariant of our own: say which, and stop at once rather than go on with a wrong state.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace trainrun {

[[noreturn]] inline void check_failed(const char* what, const char* file, int line) {
  std::fprintf(stderr, "trainrun: internal error: %s (%s:%d); please report this\n", what, file, line);
  std::abort();
}

}  // namespace trainrun

#define TRAINRUN_CHECK(condition)                      \
  (static_cast<bool>(condition) ? static_cast<void>(0) \
                                : ::trainrun::check_failed(#condition, __FILE__, __LINE__))
