#include "comm/backends/nccl/kit.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "comm/backends/nccl/library.h"
#include "launcher/base/rank_ranges.h"
#include "launcher/base/strings.h"

namespace trainrun::comm::nccl {
namespace {

constexpr std::size_t longest = 512;  // of what a rank says

std::string ranks_of(const std::vector<std::uint32_t>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", as_ranges(ranks));
}

}  // namespace

std::string encode(const Kit& kit) { return fmt::format("{}\n{}", kit.version, kit.what.substr(0, longest)); }

std::optional<Kit> decode(std::string_view text) {
  const auto end = text.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  const auto version = parse_unsigned<std::uint32_t>(text.substr(0, end));
  if (!version || *version > 99'999'999) return std::nullopt;
  return Kit{static_cast<int>(*version), std::string(text.substr(end + 1))};
}

std::optional<Failure> misfit(const std::vector<Brought>& all) {
  std::map<int, std::vector<std::uint32_t>> with;
  std::map<int, const Brought*> first;
  for (const auto& one : all) {
    with[one.kit.version].push_back(one.rank);
    first.emplace(one.kit.version, &one);
  }
  const auto example = [&](int version) {
    const auto& one = *first.at(version);
    return fmt::format("{}{}", one.host.empty() ? "" : one.host + ": ", one.kit.what);
  };
  if (const auto without = with.find(0); without != with.end())
    return fail(TRC_UNSUPPORTED,
                fmt::format("NCCL cannot be used by {} ({})", ranks_of(without->second), example(0)))
        .value();
  if (with.size() <= 1) return std::nullopt;
  std::string text = "the ranks have different versions of NCCL: ";
  for (const auto& [version, ranks] : with)
    text += fmt::format("{}{} on {} ({})", version == with.begin()->first ? "" : ", ", version_text(version),
                        ranks_of(ranks), example(version));
  return fail(TRC_MISMATCH, text).value();
}

}  // namespace trainrun::comm::nccl
