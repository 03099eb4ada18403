#include "launcher/transport/agent_image.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "launcher/transport/agent_image_facts.h"

extern "C" {
extern const char trainrun_agent_image_begin[];
extern const char trainrun_agent_image_end[];
}

namespace trainrun::transport {

const AgentImage& agent_image() {
  static const AgentImage image{
      {trainrun_agent_image_begin,
       static_cast<std::size_t>(trainrun_agent_image_end - trainrun_agent_image_begin)},
      agent_image_sha256,
      agent_image_machine};
  return image;
}

namespace {

bool only_we_can_write(std::string path) {
  for (;;) {
    struct stat status {};
    if (lstat(path.empty() ? "/" : path.c_str(), &status) != 0) return false;
    if (status.st_uid != 0 && status.st_uid != geteuid()) return false;
    if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) return false;
    if (path.empty()) return true;
    path.erase(path.rfind('/'));
  }
}

}  // namespace

std::vector<std::string> installed_agents(const AgentImage& image) {
  std::array<char, 4096> buffer{};
  const auto size = readlink("/proc/self/exe", buffer.data(), buffer.size());
  if (size <= 0 || static_cast<std::size_t>(size) == buffer.size()) return {};
  std::string directory(buffer.data(), static_cast<std::size_t>(size));
  for (int up = 0; up < 2; ++up) {  // <prefix>/bin/trainrun
    const auto slash = directory.rfind('/');
    if (slash == std::string::npos) return {};
    directory.erase(slash);
  }
  auto path = directory + "/libexec/trainrun/agent-" + image.sha256;
  if (!only_we_can_write(path)) return {};
  return {std::move(path)};
}

}  // namespace trainrun::transport
