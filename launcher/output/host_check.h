// What --check-hosts found, as text for people and as JSON for programs. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/base/error.h"
#include "launcher/base/time.h"
#include "launcher/wire/facts.h"

namespace trainrun::output {

struct HostCheck {
  std::string name;                      // of the host, as the user named it
  std::optional<wire::HostFacts> facts;  // nothing: it cannot be used, because of `error`
  Duration clock_ahead{};                // its clock minus ours
  Error error{};
};

// That of the hosts that failed when they agree, else that of a host that could not be reached; 0: all can be
// used.
int exit_code_of(const std::vector<HostCheck>& hosts);

// A line a host, and what to try.
std::string host_checks_text(const std::vector<HostCheck>& hosts);

constexpr int host_checks_schema = 2;  // of the JSON: grows when a key changes its meaning

// {"schema": 2, "ok": ..., "exit_code": ..., "hosts": [...]}; the manual has the fields.
std::string host_checks_json(const std::vector<HostCheck>& hosts);

}  // namespace trainrun::output
