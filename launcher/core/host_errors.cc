#include "launcher/core/host_errors.h"

#include <fmt/format.h>

#include <map>

#include "launcher/base/strings.h"

namespace trainrun::core {
namespace {

constexpr std::size_t told_one_by_one = 3;

}  // namespace

std::string_view without_name(std::string_view message, std::string_view name) {
  if (!message.starts_with(name) || !message.substr(name.size()).starts_with(": ")) return message;
  return message.substr(name.size() + 2);
}

std::vector<Error> grouped(const HostErrors& errors, const std::function<std::string(HostIndex)>& name) {
  std::map<std::string_view, std::vector<std::size_t>> kinds;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < errors.size(); ++i) {
    names.push_back(name(errors[i].first));
    kinds[without_name(errors[i].second.message, names.back())].push_back(i);
  }
  std::vector<Error> out;
  for (std::size_t i = 0; i < errors.size(); ++i) {
    const auto& error = errors[i].second;
    const auto what = without_name(error.message, names[i]);
    const auto& alike = kinds.at(what);
    if (alike.size() <= told_one_by_one) {
      out.push_back(error);
    } else if (alike.front() == i) {
      std::vector<std::string> those;
      for (const auto at : alike) those.push_back(names[at]);
      out.push_back(
          {error.code, fmt::format("{} hosts: {} ({})", alike.size(), what, list_names(those)), error.hint});
    }
  }
  return out;
}

}  // namespace trainrun::core
