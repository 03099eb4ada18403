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

// After the start: programs that read their input first, or start another, load an MPI late.
constexpr std::array<Duration, 4> looks{seconds(5), seconds(20), seconds(60), seconds(300)};
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
    // Launchers have libpmix as well.
    if (line.find('/') != std::string_view::npos && !name.starts_with("libpmix") &&
        family_of_library(std::string(name)) != MpiFamily::none)
      return std::string(name);
  }
  return {};
}

// As it was started.
bool has_variable(pid_t process, std::string_view name) {
  constexpr std::size_t most_variables = 4u << 20;
  const auto text =
      read_file(fmt::format("/proc/{}/environ", process), most_variables).value_or(std::string{});
  for (const auto entry : split(text, '\0'))
    if (entry.starts_with(name) && entry.substr(name.size()).starts_with('=')) return true;
  return false;
}

}  // namespace

MappedMpi mapped_mpi(pid_t process) {
  MappedMpi found{process, library_in(process)};
  if (!found.library.empty()) return found;
  for (const auto pid : descendants(process))
    if (found = {pid, library_in(pid)}; !found.library.empty()) break;
  return found;
}

MpiWatch::MpiWatch(io::Loop& loop, io::FrameStream& link, std::function<std::vector<Silent>()> silent)
    : link_(link), silent_(std::move(silent)), timer_(loop) {}

void MpiWatch::ordered(const wire::Start& order) {
  if ((!order.pmi && !order.pmix) || order.place.size < 2) return;
  if (std::exchange(generation_, order.generation) != order.generation) {
    ranks_.clear();
    begun_ = io::Loop::now();
    looks_ = 0;
    arm();
  }
  ranks_[order.worker] = {order.place.rank, order.pmi, order.pmix};
}

void MpiWatch::arm() {
  if (looks_ < looks.size()) timer_.arm(begun_ + looks[looks_], [this] { look(); });
}

void MpiWatch::look() {
  const auto time_limit = looks[looks_++];
  for (const auto& [worker, pid] : silent_()) {
    const auto expected = ranks_.find(worker);
    if (expected == ranks_.end()) continue;
    const auto [process, library] = mapped_mpi(pid);
    if (library.empty()) continue;
    const bool mpich = family_of_library(library) == MpiFamily::mpich;
    const std::string_view variable = mpich ? "PMI_FD" : "PMIX_NAMESPACE";
    // By this it will find us when it comes to MPI_Init, which may be late.
    if (has_variable(process, variable)) continue;
    const auto& [rank, pmi, pmix] = expected->second;
    const auto begin = fmt::format("rank {} has loaded {} and has not spoken to trainrun for {}", rank.value,
                                   quoted(library, 80), format_duration(time_limit));
    const bool offered = mpich ? pmi : pmix;
    link_.send(wire::Note{
        offered ? fmt::format("{}, and {} is not in its environment: it may take itself for a world of one "
                              "(try: see what between trainrun and the program clears the environment)",
                              begin, variable)
                : fmt::format("{}: it may take itself for a world of one (try: --compat {})", begin,
                              mpich ? "mpich" : "openmpi")});
    return;
  }
  arm();
}

void MpiWatch::drop() { timer_.disarm(); }

}  // namespace trainrun::agent
