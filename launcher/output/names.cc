#include "launcher/output/names.h"

#include <fmt/format.h>

#include "launcher/base/strings.h"

namespace trainrun::output {

using namespace core;

std::string name(const RankRef& who) { return fmt::format("rank {} on {}", who.rank.value, who.host.name); }

std::vector<std::string> names(const std::vector<RankRef>& ranks) {
  std::vector<std::string> out;
  for (const auto& who : ranks) out.push_back(name(who));
  return out;
}

std::string name(const MpiPart& one, const MpiPart& other) {
  if (one.part == other.part) return fmt::format("{} on {}", quoted(one.program, 80), one.host.name);
  return fmt::format("part {} ({})", one.part + 1, quoted(one.program, 80));
}

std::vector<std::string> resized(const std::vector<HostSlots>& hosts) {
  std::vector<std::string> out;
  for (const auto& it : hosts)
    out.push_back(fmt::format("{} has {} now", it.host.name, counted(it.slots, "slot")));
  return out;
}

std::string leaving(const std::string& reason, bool by_user) {
  return by_user ? "removed by the user" : reason;
}

}  // namespace trainrun::output
