#include "launcher/agent/port_holder.h"

#include <dirent.h>
#include <fmt/format.h>

#include <memory>
#include <vector>

#include "launcher/agent/socket_owner.h"
#include "launcher/base/fd.h"
#include "launcher/base/strings.h"

namespace trainrun::agent {
namespace {

constexpr std::size_t largest_table = 16u << 20;

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
  const std::unique_ptr<DIR, int (*)(DIR*)> all(::opendir("/proc"), ::closedir);
  while (const auto* entry = all ? ::readdir(all.get()) : nullptr) {
    const std::string process = entry->d_name;
    if (!parse_unsigned<std::uint32_t>(process) || !has_socket(process, {inode})) continue;
    const auto program = read_file(fmt::format("/proc/{}/comm", process), 100).value_or("");
    return fmt::format("{}, pid {}", trim(program), process);
  }
  return {};
}

}  // namespace trainrun::agent
