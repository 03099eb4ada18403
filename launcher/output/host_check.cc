#include "launcher/output/host_check.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "launcher/base/advice.h"
#include "launcher/base/exit_code.h"
#include "launcher/base/strings.h"
#include "launcher/core/binding.h"
#include "launcher/core/host_errors.h"
#include "launcher/output/our_lines.h"

namespace trainrun::output {
namespace {

// Clocks that differ by more than this make logs of several hosts hard to read; nothing of ours depends on
// it.
constexpr Duration tolerable_skew = seconds(2);

std::string good_line(const HostCheck& host) {
  const auto& facts = *host.facts;
  const auto size = host.clock_ahead < Duration::zero() ? -host.clock_ahead : host.clock_ahead;
  auto line = fmt::format("{}: ok: agent, programs and directories are there; {} cores, {} GPUs, {}",
                          host.name, core::usable_cores(facts), facts.gpus, facts.machine);
  if (size > tolerable_skew)
    line += fmt::format("; its clock is {} {}", format_duration(size),
                        host.clock_ahead > Duration::zero() ? "ahead" : "behind");
  return line;
}

}  // namespace

int exit_code_of(const std::vector<HostCheck>& hosts) {
  int code = 0;
  for (const auto& host : hosts) {
    if (host.facts) continue;
    const int its = to_int(trainrun::exit_code_of(host.error.code));
    code = code == 0 || code == its ? its : to_int(ExitCode::unreachable);
  }
  return code;
}

std::string host_checks_text(const std::vector<HostCheck>& hosts) {
  std::vector<Error> errors;
  for (const auto& host : hosts) errors.push_back(host.error);
  core::share_hints(errors);
  std::string text;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    text += our_line(hosts[i].facts ? good_line(hosts[i]) : errors[i].message);
    if (!errors[i].hint.empty()) text += our_line("    " + advice(errors[i].hint));
  }
  return text;
}

std::string host_checks_json(const std::vector<HostCheck>& hosts) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const auto& host : hosts) {
    Json one = {{"name", host.name}, {"ok", host.facts.has_value()}};
    if (host.facts) {
      one["cores"] = core::usable_cores(*host.facts);
      one["gpus"] = host.facts->gpus;
      one["machine"] = host.facts->machine;
      one["clock_ahead_s"] = std::chrono::duration<double>(host.clock_ahead).count();
    } else {
      one["code"] = to_string(host.error.code);
      one["exit_code"] = to_int(trainrun::exit_code_of(host.error.code));
      one["error"] = host.error.message;
      if (!host.error.hint.empty()) one["try"] = host.error.hint;
    }
    list.push_back(std::move(one));
  }
  const int code = exit_code_of(hosts);
  const Json all = {
      {"schema", host_checks_schema}, {"ok", code == 0}, {"exit_code", code}, {"hosts", std::move(list)}};
  return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace trainrun::output
