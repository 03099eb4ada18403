#include "launcher/agent/own_place.h"

#include <unistd.h>

#include "launcher/base/fd.h"
#include "launcher/base/strings.h"

namespace trainrun::agent {

std::string link_in_proc(const std::string& path) {
  char name[64];
  const auto size = ::readlink(path.c_str(), name, sizeof name);
  return size > 0 ? std::string(name, static_cast<std::size_t>(size)) : std::string();
}

const std::string& boot_id() {
  static const std::string id(
      trim(read_file("/proc/sys/kernel/random/boot_id", 100).value_or(std::string())));
  return id;
}

const std::string& pid_namespace() {
  static const std::string name = link_in_proc("/proc/self/ns/pid");
  return name;
}

}  // namespace trainrun::agent
