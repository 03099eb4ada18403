#include "host-discovery/script.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "host-discovery/host_key.h"
#include "host-discovery/host_line.h"
#include "host-discovery/hostlist.h"
#include "host-discovery/merge.h"
#include "host-discovery/script_json.h"
#include "launcher/base/strings.h"

namespace trainrun::hosts {
namespace {

// `!host` and `host:0`.
bool take_mark(std::string& word) {
  if (word.starts_with('!')) {
    word.erase(0, 1);
    return true;
  }
  return take_zero(word);
}

// The hosts of one line; those to be left have no slots.
Result<std::vector<Host>> read_line(std::string_view line, LineCutter& cutter) {
  std::vector<std::string> words;
  if (line.starts_with('{') && !cutter.inside_comment()) {
    auto object = words_of_json(line);
    if (!object) return tl::unexpected(object.error());
    words = std::move(*object);
  } else {
    words = cutter.cut(line);
  }
  if (words.empty()) return std::vector<Host>{};
  const bool mark = take_mark(words.front());
  auto hosts = read_host_line(words, LineRules::discovery);
  if (!hosts || !mark) return hosts;
  for (auto& host : *hosts) host.slots = 0;
  return hosts;
}

}  // namespace

bool Listing::removes(const Host& host) const {
  if (removed.empty()) return false;
  for (const bool any_user : {false, true}) {
    for (const bool any_port : {false, true}) {
      const Host mark{.name = host.name,
                      .user = any_user ? std::string() : host.user,
                      .port = any_port ? std::uint16_t{0} : host.port};
      if (removed.count(host_key(mark)) != 0) return true;
    }
  }
  return false;
}

Result<void> Listing::tidy(int default_slots, const IsThisMachine& is_this_machine) {
  if (!removed.empty()) std::erase_if(hosts, [this](const Host& host) { return removes(host); });
  auto merged = merge_hosts(std::move(hosts), default_slots, is_this_machine);
  if (!merged) return tl::unexpected(merged.error());
  hosts = std::move(*merged);
  return {};
}

Result<Listing> parse_script(std::string_view text, int default_slots, const IsThisMachine& is_this_machine) {
  const auto at = [](std::size_t line, const Error& error) {
    return fail(error.code, fmt::format("line {}: {}", line, error.message), error.hint);
  };
  if (text.size() > most_output) {
    return fail(Code::config, fmt::format("more than {} MB of output", most_output / 1'000'000));
  }
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);

  Listing listing;
  LineCutter cutter;
  std::size_t number = 0, comment_line = 0, count = 0;
  while (!text.empty()) {
    ++number;
    const auto line = take_line(text);
    if (!line) return at(number, line.error());
    const bool was_inside = cutter.inside_comment();
    auto hosts = read_line(*line, cutter);
    if (!hosts) return at(number, hosts.error());
    if (cutter.inside_comment() && !was_inside) comment_line = number;
    count += hosts->size();
    if (count > most_hosts) return at(number, {Code::config, fmt::format("more than {} hosts", most_hosts)});
    for (auto& host : *hosts) {
      if (host.slots == 0) {
        if (is_this_machine && is_this_machine(host)) host.user.clear();  // as that of the host that it means
        listing.removed.insert(host_key(host));
      } else {
        listing.hosts.push_back(std::move(host));
      }
    }
  }
  if (cutter.inside_comment()) return at(comment_line, {Code::config, "'/*' without its '*/'"});
  if (auto tidied = listing.tidy(default_slots, is_this_machine); !tidied)
    return tl::unexpected(tidied.error());
  return listing;
}

}  // namespace trainrun::hosts
