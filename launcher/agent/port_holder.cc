#include "launcher/agent/port_holder.h"

#include <dirent.h>
#include <fmt/format.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <vector>

#include "launcher/base/fd.h"
#include "launcher/base/strings.h"

namespace trainrun::agent {
namespace {

constexpr std::size_t largest_table = 16u << 20;

// Calls `look` with each name until it gives true.
void for_each_name(const std::string& directory, const std::function<bool(const char*)>& look) {
  const std::unique_ptr<DIR, int (*)(DIR*)> all(::opendir(directory.c_str()), ::closedir);
  if (!all) return;
  while (const auto* entry = ::readdir(all.get()))
    if (look(entry->d_name)) return;
}

bool has_socket(const std::string& descriptors, const std::string& socket) {
  bool found = false;
  for_each_name(descriptors, [&](const char* name) {
    char target[64]{};
    const auto path = descriptors + "/" + name;
    return found = ::readlink(path.c_str(), target, sizeof target - 1) > 0 && socket == target;
  });
  return found;
}

}  // namespace

std::uint64_t listening_inode(std::string_view table, std::uint16_t port) {
  const auto ours = fmt::format(":{:04X}", port);
  for (const auto line : split(table, '\n')) {
    std::vector<std::string_view> words;
    for (const auto word : split(line, ' '))
      if (!word.empty()) words.push_back(word);
    // sl local remote state queues timer retransmits uid timeout inode
    if (words.size() < 10 || words[3] != "0A" || !words[1].ends_with(ours)) continue;
    if (const auto inode = parse_unsigned<std::uint64_t>(words[9])) return *inode;
  }
  return 0;
}

std::string port_holder(std::uint16_t port) {
  std::uint64_t inode = 0;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    if (inode == 0) inode = listening_inode(read_file(table, largest_table).value_or(""), port);
  }
  if (inode == 0) return {};
  const auto socket = fmt::format("socket:[{}]", inode);
  std::string holder;
  for_each_name("/proc", [&](const char* name) {
    if (!parse_unsigned<std::uint32_t>(name) || !has_socket(fmt::format("/proc/{}/fd", name), socket))
      return false;
    const auto program = read_file(fmt::format("/proc/{}/comm", name), 100).value_or("");
    holder = fmt::format("{}, pid {}", trim(program), name);
    return true;
  });
  return holder;
}

}  // namespace trainrun::agent
