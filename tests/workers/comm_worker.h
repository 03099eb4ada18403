// What the files of comm_worker share.
#pragma once

#include <cstdio>
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
int groups();
int group_loop(bool mismatch);
int group_late();
int send_late();
int all_operations(bool child);
int leaks();
int works();
int works_loop();
int works_fork();
int works_free();
