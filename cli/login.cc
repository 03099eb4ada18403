#include "cli/login.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <string>

#include "launcher/transport/key_agent.h"
#include "launcher/transport/key_file.h"

namespace trainrun::cli {
namespace {

// Whose name ssh makes itself, or whose private half only an ssh agent has.
bool is_not_ours_to_judge(const std::string& key, bool has_agent) {
  return key.find('%') != std::string::npos ||
         (has_agent && ::access(key.c_str(), F_OK) != 0 && ::access((key + ".pub").c_str(), F_OK) == 0);
}

Result<void> key_is_usable(const JobSpec& job, const Host& host, std::set<std::string>& seen) {
  const auto& key = host.identity.empty() ? job.ssh.identity : host.identity;
  const bool has_agent = !transport::key_agent().empty();
  if (key.empty() || !seen.insert(key).second || is_not_ours_to_judge(key, has_agent)) return {};
  auto good = transport::check_key_file(key, has_agent);
  if (!good) good.error().message.insert(0, (host.identity.empty() ? "-i" : host.name) + ": ");
  return good;
}

}  // namespace

Result<void> keys_are_usable(const JobSpec& job, const std::function<bool(const Host&)>& needs_no_login) {
  std::set<std::string> seen;
  for (const auto& host : job.hosts.hosts) {
    if (needs_no_login(host)) continue;
    if (auto good = key_is_usable(job, host, seen); !good) return good;
  }
  return {};
}

// Neither libssh nor OpenSSH's client works for a user without one: it holds the home directory.
Result<void> user_is_known(const JobSpec& job, const std::function<bool(const Host&)>& needs_no_login) {
  const auto& hosts = job.hosts.hosts;
  if (std::all_of(hosts.begin(), hosts.end(), needs_no_login)) return {};
  errno = 0;
  if (::getpwuid(::geteuid()) != nullptr || (errno != 0 && errno != ENOENT && errno != ESRCH)) return {};
  return fail(
      Code::config,
      fmt::format("nobody can log in by ssh as uid {}, which has no entry in /etc/passwd", ::geteuid()),
      "run as a user that has one, or add one, where this is a container: NAME:x:UID:GID::HOME:SHELL");
}

}  // namespace trainrun::cli
