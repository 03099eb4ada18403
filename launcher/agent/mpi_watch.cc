#include "launcher/agent/mpi_watch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "launcher/agent/mpi_program.h"
#include "launcher/agent/process_tree.h"
#include "launcher/base/fd.h"
#include "launcher/base/strings.h"

namespace trainrun::agent {
namespace {

constexpr Duration patience = seconds(5);
constexpr std::size_t most_bytes = 4u << 20;  // of /proc/PID/maps

std::string library_in(pid_t process) {
  const Fd file(::open(fmt::format("/proc/{}/maps", process).c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  std::array<char, 65536> piece{};
  for (ssize_t n = 0;
       file && text.size() < most_bytes && (n = ::read(file.get(), piece.data(), piece.size())) > 0;)
    text.append(piece.data(), static_cast<std::size_t>(n));
  for (const auto line : split(text, '\n')) {
    const auto name = line.substr(line.rfind('/') + 1);
    if (line.find('/') != std::string_view::npos && family_of_library(std::string(name)) != MpiFamily::none)
      return std::string(name);
  }
  return {};
}

}  // namespace

std::string mapped_mpi(pid_t process) {
  auto found = library_in(process);
  for (const auto pid : found.empty() ? descendants(process) : std::vector<pid_t>{})
    if (found = library_in(pid); !found.empty()) break;
  return found;
}

MpiWatch::MpiWatch(io::Loop& loop, io::FrameStream& link, std::function<std::vector<Silent>()> silent)
    : link_(link), silent_(std::move(silent)), timer_(loop) {}

void MpiWatch::ordered(const wire::Start& order) {
  if ((!order.pmi && !order.pmix) || order.place.size < 2) return;
  if (std::exchange(generation_, order.generation) != order.generation) {
    ranks_.clear();
    timer_.arm(io::Loop::now() + patience, [this] { look(); });
  }
  ranks_[order.worker] = order.place.rank;
}

void MpiWatch::look() {
  for (const auto& [worker, pid] : silent_()) {
    const auto rank = ranks_.find(worker);
    if (rank == ranks_.end()) continue;
    const auto library = mapped_mpi(pid);
    if (library.empty()) continue;
    const bool mpich = family_of_library(library) == MpiFamily::mpich;
    link_.send(wire::Note{fmt::format(
        "rank {} has loaded {} and has not spoken to trainrun for {}: it may take itself for a world of one "
        "(try: --compat {})",
        rank->second.value, quoted(library, 80), format_duration(patience), mpich ? "mpich" : "openmpi")});
    return;
  }
}

void MpiWatch::drop() { timer_.disarm(); }

}  // namespace trainrun::agent
