#include "launcher/store_words.h"

#include <fmt/format.h>

#include "launcher/base/strings.h"

namespace trainrun {
namespace {

constexpr std::size_t most = 4;

std::string list(std::vector<std::string> names, const char* separator) {
  const auto count = names.size();
  if (count > most) {
    names.resize(most);
    names.push_back(fmt::format("and {} more", count - most));
  }
  return fmt::format("{}", fmt::join(names, separator));
}

}  // namespace

std::vector<std::string> store_lines(const StoreFindings& found, std::uint16_t port,
                                     const std::function<std::string(WorkerId)>& name) {
  std::vector<std::string> lines;
  if (found.unasked)
    lines.emplace_back(
        "the script uses Accelerate or HF Trainer and does not ask for the CPU, and there is no GPU: each "
        "rank "
        "may take itself for a world of one (try: -x ACCELERATE_USE_CPU=true, or in the script "
        "Accelerator(cpu=True) or TrainingArguments(use_cpu=True))");
  if (!found.hosts.empty()) {
    std::vector<std::string> names;
    for (const auto worker : found.hosts) names.push_back(name(worker));
    lines.push_back(
        fmt::format("{} ranks hold a store at MASTER_PORT {}, each its own: {} (try: leave RANK, "
                    "WORLD_SIZE and MASTER_ADDR as they are set)",
                    found.hosts.size(), port, list(std::move(names), ", ")));
  }
  if (found.all_of > 0)
    lines.push_back(
        fmt::format("all {} ranks have come to MASTER_PORT {} and have waited there for {}, as for more than "
                    "there are (try: leave WORLD_SIZE as it is set)",
                    found.all_of, port, format_duration(found.idle)));
  if (!found.elsewhere.empty()) {
    std::vector<std::string> places;
    for (const auto& it : found.elsewhere)
      places.push_back(fmt::format("{} {} port {}", name(it.worker),
                                   it.listens ? "listens on" : "is connected to", it.port));
    lines.push_back(
        fmt::format("{}: {} (try: leave MASTER_ADDR and MASTER_PORT as they are set)",
                    found.some_meet_elsewhere
                        ? fmt::format("no rank has come to MASTER_PORT {}, and some meet elsewhere", port)
                        : fmt::format("not at MASTER_PORT {}", port),
                    list(std::move(places), "; ")));
  }
  return lines;
}

std::string clash_line(const rendezvous::TorchClash& clash) {
  return fmt::format(
      "ranks {} and {} have both called init_process_group as rank {}: not all ranks are in one world (try: "
      "leave RANK, LOCAL_RANK and WORLD_SIZE as they are set)",
      clash.one.value, clash.other.value, clash.number);
}

std::string beyond_line(std::size_t size, std::uint32_t rank) {
  return fmt::format(
      "all of {} called init_process_group, and some wait there for rank {}, which there is not (try: leave "
      "WORLD_SIZE as "
      "it is set)",
      counted(static_cast<std::int64_t>(size), "rank"), rank);
}

}  // namespace trainrun
