// What the files of comm_worker share.
#pragma once

#include <cstdio>
#include <optional>
#include <string>

#include "trainrun_comm.hpp"

inline void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}
inline void await_end_of_input() {
  while (std::getchar() != EOF) {
  }
}

inline int complain(const char* what, const char* type, std::size_t count) {
  std::printf("wrong %s %s %zu\n", what, type, count);
  std::fflush(stdout);
  return 1;
}

// Modes of comm_worker, which says what they do.
std::optional<int> group_mode(const std::string& mode);  // nothing: it is none of those
std::optional<int> works_mode(const std::string& mode);
