#include "launcher/core/host_errors.h"

#include <fmt/format.h>

#include <map>

#include "launcher/base/strings.h"

namespace trainrun::core {
namespace {

constexpr std::size_t told_one_by_one = 3;

// Of a hint with a command like `scan HOST >> FILE`: the place of HOST; size 0: it has none.
struct Place {
  std::size_t at = 0, size = 0;
};
Place host_in(std::string_view hint) {
  const auto end = hint.rfind(" >> ");
  if (end == std::string_view::npos || end == 0) return {};
  const auto blank = hint.rfind(' ', end - 1);
  return blank == std::string_view::npos ? Place{} : Place{blank + 1, end - blank - 1};
}

// And of one that removes the old key first, `ssh-keygen -f FILE -R 'HOST' && scan HOST >> FILE`: the place
// of the quoted one.
Place old_key_in(std::string_view hint) {
  constexpr std::string_view before = " -R ", after = "' && ";
  const auto at = hint.find(before);
  const auto end = hint.find(after);
  if (at == std::string_view::npos || end == std::string_view::npos || end < at + before.size()) return {};
  return {at + before.size(), end + 1 - at - before.size()};
}

// The old keys of several hosts are removed in a loop.
std::string in_a_loop(const std::string& hint, const std::string& hosts) {
  const auto [at, size] = old_key_in(hint);
  const auto command = hint.rfind("ssh-keygen ", at);
  if (size == 0 || command == std::string::npos) return hint;
  return fmt::format("{}for h in {}; do {}\"$h\"; done{}", hint.substr(0, command), hosts,
                     hint.substr(command, at - command), hint.substr(at + size));
}

}  // namespace

void share_hints(std::vector<Error>& errors) {
  struct Shared {
    std::string hosts, old_keys;
    std::size_t last = 0;
    int count = 0;
  };
  std::map<std::string, Shared> commands;
  for (std::size_t i = 0; i < errors.size(); ++i) {
    auto frame = errors[i].hint;
    const auto [at, size] = host_in(frame);
    if (size == 0) continue;
    const auto host = frame.substr(at, size);
    frame.replace(at, size, " ");
    const auto old = old_key_in(frame);
    const auto old_key = frame.substr(old.at, old.size);
    const auto [it, is_new] = commands.try_emplace(frame.replace(old.at, old.size, ""));
    auto& shared = it->second;
    if (!is_new) errors[shared.last].hint.clear();
    shared.hosts += (is_new ? "" : " ") + host;
    shared.old_keys += (is_new ? "" : " ") + old_key;
    shared.last = i;
    ++shared.count;
  }
  for (const auto& [frame, command] : commands) {
    auto& hint = errors[command.last].hint;
    const auto [at, size] = host_in(hint);
    hint.replace(at, size, command.hosts);
    if (command.count > 1) hint = in_a_loop(hint, command.old_keys);
  }
}

std::string_view without_name(std::string_view message, std::string_view name) {
  if (!message.starts_with(name) || !message.substr(name.size()).starts_with(": ")) return message;
  return message.substr(name.size() + 2);
}

std::vector<Error> grouped(const HostErrors& given, const std::function<std::string(HostIndex)>& name) {
  std::vector<Error> errors;
  std::vector<std::string> names;
  for (const auto& [host, error] : given) {
    errors.push_back(error);
    names.push_back(name(host));
  }
  share_hints(errors);
  std::map<std::string_view, std::vector<std::size_t>> kinds;
  for (std::size_t i = 0; i < errors.size(); ++i)
    kinds[without_name(errors[i].message, names[i])].push_back(i);
  std::vector<Error> out;
  for (std::size_t i = 0; i < errors.size(); ++i) {
    const auto what = without_name(errors[i].message, names[i]);
    const auto& alike = kinds.at(what);
    if (alike.size() <= told_one_by_one) {
      out.push_back(errors[i]);
    } else if (alike.front() == i) {
      std::vector<std::string> those;
      std::string hint;  // the first that there is: a shared one stands at the last of its hosts
      for (const auto at : alike) {
        those.push_back(names[at]);
        if (hint.empty()) hint = errors[at].hint;
      }
      out.push_back({errors[i].code, fmt::format("{} hosts: {} ({})", alike.size(), what, list_names(those)),
                     std::move(hint)});
    }
  }
  return out;
}

}  // namespace trainrun::core
