#include "cli/rank_file.h"

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "host-discovery/host_line.h"
#include "launcher/base/strings.h"

namespace trainrun::cli {
namespace {

constexpr std::uint32_t max_ranks = 1'000'000;
constexpr std::uint32_t all_cores = std::numeric_limits<std::uint32_t>::max();
constexpr std::int32_t most_sockets = 65536;
constexpr std::string_view form = "a line is: rank N=HOST slot=CORES, as in rank 0=gpu1 slot=0:0-3";

std::optional<CoreRange> range_of(std::string_view text, std::int32_t socket) {
  if (text == "*") return CoreRange{socket, 0, all_cores};
  const auto dash = text.find('-');
  const auto first = parse_unsigned<std::uint32_t>(text.substr(0, dash));
  const auto last =
      dash == std::string_view::npos ? first : parse_unsigned<std::uint32_t>(text.substr(dash + 1));
  if (!first || !last || *last < *first || *last == all_cores) return std::nullopt;
  return CoreRange{socket, *first, *last};
}

// "1:0-2", "0-3,8", "0:0,1:0": a socket holds until another one is named.
std::optional<std::vector<CoreRange>> cores_of(std::string_view list) {
  std::vector<CoreRange> cores;
  std::int32_t socket = -1;
  for (auto word : split(list, ',')) {
    const auto colon = word.find(':');
    if (colon != std::string_view::npos) {
      const auto number = parse_unsigned<std::uint32_t>(word.substr(0, colon));
      if (!number || *number >= most_sockets) return std::nullopt;
      socket = static_cast<std::int32_t>(*number);
      word.remove_prefix(colon + 1);
    }
    const auto range = range_of(word, socket);
    if (!range) return std::nullopt;
    cores.push_back(*range);
  }
  return cores;
}

struct Read {
  std::uint32_t rank = 0;
  RankLine line{};
};

Result<Read> read_line(const std::vector<std::string>& words) {
  if (words.front() != "rank" || words.size() < 2)
    return fail(Code::config, fmt::format("{} is not rank N=HOST", quoted(words.front(), 60)),
                std::string(form));
  const std::string_view where = words[1];
  const auto equals = where.find('=');
  const auto rank = parse_unsigned<std::uint32_t>(where.substr(0, equals));
  if (!rank || *rank >= max_ranks || equals == std::string_view::npos || equals + 1 == where.size())
    return fail(Code::config, fmt::format("{} is not a rank and its host", quoted(where, 60)),
                std::string(form));
  Read out{*rank, {std::string(where.substr(equals + 1))}};
  if (words.size() == 2) return out;
  const std::string_view slot = words[2];
  if (words.size() > 3 || (!slot.starts_with("slot=") && !slot.starts_with("slots=")))
    return fail(Code::config, fmt::format("{} is not slot=CORES", quoted(words.back(), 60)),
                std::string(form));
  auto cores = cores_of(slot.substr(slot.find('=') + 1));
  if (!cores)
    return fail(Code::config, fmt::format("{} names no cores", quoted(slot, 60)),
                "write cores of the host, slot=0-3,8, or of a socket, slot=1:0-2 or slot=1:*");
  out.line.cores = std::move(*cores);
  return out;
}

}  // namespace

Result<std::vector<RankLine>> parse_rank_file(std::string_view text, std::string_view name) {
  std::map<std::uint32_t, RankLine> ranks;
  const auto at = [&](std::size_t line, const Error& error) {
    return fail(Code::config, fmt::format("{}:{}: {}", name, line, error.message), error.hint);
  };
  hosts::LineCutter cutter;
  std::size_t number = 0;
  while (!text.empty()) {
    ++number;
    const auto line = hosts::take_line(text);
    if (!line) return at(number, line.error());
    const auto words = cutter.cut(*line);
    if (words.empty()) continue;
    auto read = read_line(words);
    if (!read) return at(number, read.error());
    read->line.line = number;
    const auto [it, fresh] = ranks.try_emplace(read->rank, std::move(read->line));
    if (!fresh)
      return fail(Code::config, fmt::format("{}:{}: rank {} stands in line {} as well", name, number,
                                            it->first, it->second.line));
  }
  if (ranks.empty()) return fail(Code::config, fmt::format("{}: names no rank", name), std::string(form));
  std::vector<RankLine> out;
  for (auto& [rank, line] : ranks) {
    if (rank != out.size())
      return fail(Code::config, fmt::format("{}: there is no line for rank {}", name, out.size()),
                  "ranks are counted from 0, without holes");
    out.push_back(std::move(line));
  }
  return out;
}

}  // namespace trainrun::cli
