// libnccl, found and loaded at run time: the one that the program uses, whichever that is.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "comm/backends/nccl/abi.h"

namespace trainrun::comm::nccl {

struct Library {
  Functions call{};
  int version = 0;     // 22809
  std::string path;    // of the file, as the loader has it
  std::string origin;  // why this one: "the program's", "TRAINRUN_NCCL_LIB"
};

// The first that is there: what the program has loaded already, the wheel beside the interpreter,
// TRAINRUN_NCCL_LIB, the system's. One that is there and cannot be used is an error, since the program would
// use it. Loaded once and never unloaded; the error says where was looked.
tl::expected<const Library*, std::string> library();

// A file that Python knows of: of the wheel that torch would load. Before the first library() that finds one.
void look_at_wheel(std::string path);

// Where a wheel has its libnccl below these prefixes of Python installations, those that exist.
std::vector<std::string> wheels_below(const std::vector<std::string>& prefixes);

// 22809 is "2.28.9", 2708 "2.7.8".
std::string version_text(int version);

}  // namespace trainrun::comm::nccl
