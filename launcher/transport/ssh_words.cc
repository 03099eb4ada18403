#include "launcher/transport/ssh_words.h"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/base/strings.h"

namespace trainrun::transport {

namespace {

constexpr std::string_view letters_digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

bool only(std::string_view text, std::string_view extra) {
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return letters_digits.find(c) != std::string_view::npos || extra.find(c) != std::string_view::npos;
  });
}

std::string ssh_flags(std::uint16_t port, std::string_view flag) {
  return port == 22 || port == 0 ? std::string() : fmt::format("{} {} ", flag, port);
}

}  // namespace

bool is_host_name(std::string_view name) {
  if (name.empty() || name.size() > 255 || name.front() == '-' || name.front() == '.') return false;
  if (name.find(':') != std::string_view::npos) {  // an IPv6 address, perhaps with a zone
    const auto zone = name.find('%');
    const auto address = name.substr(0, zone);
    if (address.find_first_not_of("0123456789abcdefABCDEF:.") != std::string_view::npos) return false;
    return zone == std::string_view::npos || (zone + 1 < name.size() && only(name.substr(zone + 1), "_.-"));
  }
  return only(name, "._-");
}

bool is_user_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && name.front() != '-' && only(name, "._-+");
}

Result<void> check_names(const Host& host) {
  if (!is_host_name(host.name)) {
    return fail(Code::config, fmt::format("{} is not a host name", quoted(host.name)),
                "a host is a name of letters, digits, '.', '-' and '_', or an IP address");
  }
  if (!host.user.empty() && !is_user_name(host.user)) {
    return fail(Code::config, fmt::format("{}: {} is not a user name", host.name, quoted(host.user)),
                "a user name is made of letters, digits, '.', '-', '_' and '+'");
  }
  return {};
}

std::string known_hosts_name(std::string_view host, std::uint16_t port) {
  return port == 22 ? std::string(host) : fmt::format("[{}]:{}", host, port);
}

Error unknown_host_key(const std::string& host, const KnownHosts& where, const HostKey& key) {
  // core::share_hints makes one command of those of several hosts: the host stands before the >>.
  return {Code::host_key,
          fmt::format("{}: its host key is not known: {} {}", host, key.type, key.fingerprint),
          fmt::format(
              "compare that fingerprint with the host's own (`ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub` "
              "there), then pass --ssh-accept-new once, or: ssh-keyscan -H {}-t {} {} >> {}",
              ssh_flags(where.port, "-p"), key.type, where.host, where.file)};
}

Error changed_host_key(const std::string& host, const KnownHosts& where, const HostKey& key) {
  return {
      Code::host_key,
      fmt::format("{}: ITS HOST KEY HAS CHANGED, now {} {}: either it was installed anew, or somebody "
                  "pretends to be it",
                  host, key.type, key.fingerprint),
      fmt::format("if you know why it changed: ssh-keygen -f {} -R '{}' && ssh-keyscan -H {}-t {} {} >> {}",
                  where.file, known_hosts_name(where.host, where.port), ssh_flags(where.port, "-p"), key.type,
                  where.host, where.file)};
}

Error nothing_accepted(const Host& host, const std::string& user, std::uint16_t port,
                       const std::vector<std::string>& tried, const std::string& methods) {
  return {
      Code::auth,
      fmt::format(
          "{}: none of your keys was accepted for user {} (tried: {}; the host takes: {})", host.name, user,
          tried.empty() ? std::string("nothing, there is no key") : fmt::format("{}", fmt::join(tried, "; ")),
          methods.empty() ? "nothing it would name" : methods),
      fmt::format("ssh-copy-id {}{}@{}   or name the key with -i, or load it: ssh-add", ssh_flags(port, "-p"),
                  user, host.name)};
}

namespace {
constexpr std::string_view openssh_follows = "use --transport openssh (or auto), which follows it";
constexpr std::string_view install_libssh = "apt install libssh-4, or use --transport openssh (or auto)";
}  // namespace

Error no_libssh(std::string what) {
  return {Code::unreachable, std::move(what), std::string(install_libssh)};
}

Error needs_openssh(std::string what) {
  return {Code::config, std::move(what), std::string(openssh_follows)};
}

// libssh makes an ssh of a ProxyJump: [-l USER] [-p PORT] [-J OTHERS] -W '[%h]:%p' HOST.
std::string describe_proxy(std::string_view command) {
  constexpr std::string_view forwarding = " -W '[%h]:%p' ", others = " -J ";
  const auto at = command.find(forwarding);
  if (!command.starts_with("ssh ") || at == std::string_view::npos)
    return fmt::format("a ProxyCommand ({})", quoted(command, 300));
  // libssh puts the first of several hops last.
  auto hops = std::string(command.substr(at + forwarding.size()));
  if (const auto first = command.find(others); first < at)
    hops += "," + std::string(command.substr(first + others.size(), at - first - others.size()));
  return fmt::format("a ProxyJump ({})", hops);
}

bool is_for_openssh(const Error& error) {
  return error.hint == openssh_follows || error.hint == install_libssh;
}

Error unreachable_host(const std::string& host, std::string_view address, std::uint16_t port,
                       std::string_view why) {
  const auto where = address.empty() ? std::string() : fmt::format(" {} port {}", address, port);
  return {Code::unreachable, fmt::format("{}: cannot connect{}: {}", host, where, why),
          address.empty()
              ? fmt::format("is {} spelled right, and in DNS or /etc/hosts?", host)
              : fmt::format("is it up, does sshd listen there (--ssh-port), is a firewall in between? "
                            "ssh {}{} true tells more",
                            ssh_flags(port, "-p"), host)};
}

Error silent_host(const std::string& host, std::string_view step, Duration after) {
  return {Code::timeout,
          fmt::format("{}: no answer while {}, given up after {}", host, step, format_duration(after)),
          step == looking_up
              ? fmt::format("does DNS answer (getent hosts {})? --start-timeout sets the limit", host)
              : fmt::format("is it overloaded or cut off (ssh -v {} true)? --start-timeout sets the limit",
                            host)};
}

}  // namespace trainrun::transport
