#include "launcher/core/replay.h"

#include <fmt/format.h>

namespace trainrun::core {
namespace {

// Whether all hosts that a record names are among the first so many of the list. Of a rank or worker that it
// does not know the machine hears without harm.
class NamesHosts {
 public:
  explicit NamesHosts(std::uint32_t hosts) : hosts_(hosts) {}
  template <class T>
  void operator()(std::string_view, T& value) {
    if constexpr (std::same_as<T, HostIndex>)
      known = known && value.value < hosts_;
    else if constexpr (std::same_as<T, std::vector<Seat>>)
      for (auto& seat : value) seat.fields(*this);
  }
  bool known = true;

 private:
  std::uint32_t hosts_;
};

std::uint32_t hosts_in(const journal::Header& header) {
  return static_cast<std::uint32_t>(header.job.hosts.hosts.size());
}

bool sits_well(const journal::Header& header) {
  NamesHosts check(hosts_in(header));
  auto placement = header.first;
  placement.fields(check);
  const auto& seats = placement.seats;
  for (std::size_t i = 0; i < seats.size(); ++i) {
    if (seats[i].rank.value != i || seats[i].program >= header.job.programs.size()) return false;
  }
  return check.known && (header.job.elastic.enabled() || !seats.empty());
}

}  // namespace

Replay::Replay(const journal::Header& header)
    : began_(header.began),
      machine_(std::make_unique<JobMachine>(header.job, header.first)),
      hosts_(hosts_in(header)) {}

Result<Replay> Replay::of(const journal::Header& header) {
  if (header.job.programs.empty() || !sits_well(header))
    return fail(Code::config, "its header tells of a job that cannot be");
  return Replay(header);
}

Result<Replay::Decided> Replay::step(const journal::Step& step) {
  ++number_;
  NamesHosts check(hosts_);
  auto event = step.event;
  std::visit([&check](auto& it) { it.fields(check); }, event);
  if (!check.known)
    return fail(Code::config, fmt::format("record {} names a host that the job does not have", number_));
  Decided out{machine_->step(event, began_ + step.since)};
  out.as_then = journal::hash_of(out.actions) == step.decided;
  for (const auto& action : out.actions) hosts_ += std::holds_alternative<AddHost>(action) ? 1 : 0;
  return out;
}

}  // namespace trainrun::core
