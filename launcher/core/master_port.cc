#include "launcher/core/master_port.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "launcher/base/open_files.h"
#include "launcher/base/strings.h"

namespace trainrun::core {
namespace {

constexpr auto torch_store = wire::DoorKind::torch_store;

// "29500", "29500-29510"
std::string words_of(const PortRange& range) {
  return range.first == range.last ? std::to_string(range.first)
                                   : fmt::format("{}-{}", range.first, range.last);
}

Error refusal(const std::string& host, std::uint16_t named, const PortRange& range,
              const wire::PortHeld& held) {
  if (named == 0) {
    return {Code::try_again,
            fmt::format("{}: cannot reserve a port for MASTER_PORT: {}{}", host, errno_text(held.error),
                        range.first == 0 ? "" : fmt::format(" (--port-range {})", words_of(range))),
            held.error == EMFILE || held.error == ENFILE
                ? open_files_hint(held.error)
                : "widen --port-range, or name a port with --master-port"};
  }
  const auto by = held.holder.empty() ? std::string() : fmt::format(" (by {})", held.holder);
  constexpr auto without = "or leave --master-port out: a free one is found at each start";
  return {Code::try_again,
          fmt::format("{}: rank 0 could not listen on --master-port {}: {}{}", host, held.port,
                      errno_text(held.error), by),
          held.error == EADDRINUSE ? fmt::format("end what uses it, name another port, {}", without)
                                   : fmt::format("name another port, {}", without)};
}

}  // namespace

std::vector<wire::DoorKind> doors_of(const JobSpec& job) {
  std::vector<wire::DoorKind> kinds{wire::DoorKind::rendezvous};
  if (job.torch_store == TorchStore::trainrun) kinds.push_back(torch_store);
  if (job.compat == Compat::horovod) kinds.push_back(wire::DoorKind::horovod);
  return kinds;
}

PortRange ports_of_doors(const JobSpec& job) {
  const PortRange any;
  auto range = job.ports;
  if (range.first == 0) return any;
  const auto named = job.master_port;
  const auto kinds = doors_of(job);
  const int doors = static_cast<int>(kinds.size() - std::count(kinds.begin(), kinds.end(), torch_store));
  if (named == 0) return range.last - range.first < doors ? any : range;
  if (named < range.first || named > range.last) return range;
  if (named - range.first < range.last - named) {
    range.first = static_cast<std::uint16_t>(named + 1);
  } else {
    range.last = static_cast<std::uint16_t>(named - 1);
  }
  return range.last - range.first + 1 < doors ? any : range;
}

MasterPort::MasterPort(const JobSpec& job)
    : named_(job.master_port), range_(job.ports), own_store_(job.torch_store == TorchStore::trainrun) {}

wire::HoldPort MasterPort::ask(HostIndex host, Generation generation) {
  asked_[host].push_back(generation);
  return named_ == 0 ? wire::HoldPort{range_.first, range_.last} : wire::HoldPort{named_, named_, true};
}

std::optional<wire::HoldPort> MasterPort::want(const ReservePort& order, bool world_has_begun) {
  wanted_ = order;
  as_named_ = own_store_ || (named_ != 0 && world_has_begun);
  if (as_named_) return std::nullopt;
  const auto& asked = asked_[order.host];
  const bool known = std::find(asked.begin(), asked.end(), order.generation) != asked.end() ||
                     (held_ && held_->for_whom == order);
  return known ? std::nullopt : std::optional(ask(order.host, order.generation));
}

void MasterPort::forget(HostIndex host) {
  asked_.erase(host);
  if (held_ && held_->for_whom.host == host) held_.reset();
}

void MasterPort::answered(HostIndex host, const wire::PortHeld& answer) {
  auto& asked = asked_[host];
  if (asked.empty()) return;
  held_ = Held{{asked.front(), host}, answer};
  asked.pop_front();
}

std::optional<MasterPort::Reserved> MasterPort::take(const HostSet& hosts) {
  if (!wanted_) return std::nullopt;
  if (!as_named_ && (!held_ || held_->for_whom != *wanted_)) return std::nullopt;
  const auto wanted = *std::exchange(wanted_, std::nullopt);
  if (as_named_) return Reserved{wanted.generation, named_};
  const auto held = std::exchange(held_, std::nullopt)->answer;
  if (held.error == 0) return Reserved{wanted.generation, held.port};
  return Reserved{wanted.generation,
                  tl::unexpected(refusal(hosts.hosts[wanted.host.value].name, named_, range_, held))};
}

}  // namespace trainrun::core
