#include "launcher/transport/ssh_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

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
              "there), then: ssh-keyscan -H {}-t {} {} >> {}   or once: --ssh-accept-new",
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
      fmt::format("{}: no key of ours was accepted for user {} (tried: {}; the host takes: {})", host.name,
                  user, tried.empty() ? std::string("nothing, there is no key") : list_names(tried),
                  methods.empty() ? "nothing it would name" : methods),
      fmt::format("ssh-copy-id {}{}@{}   or name the key with -i, or load it: ssh-add", ssh_flags(port, "-p"),
                  user, host.name)};
}

namespace {
constexpr std::string_view openssh_follows = "use --transport openssh (or auto), which follows it";
}

Error needs_openssh(std::string what) {
  return {Code::config, std::move(what), std::string(openssh_follows)};
}

bool is_for_openssh(const Error& error) {
  return error.code == Code::config && error.hint == openssh_follows;
}

Error unreachable_host(const std::string& host, std::string_view address, std::uint16_t port,
                       std::string_view why) {
  const auto where = address.empty() ? std::string() : fmt::format(" {} port {}", address, port);
  return {Code::unreachable, fmt::format("{}: cannot connect{}: {}", host, where, why),
          address.empty()
              ? fmt::format("is {} spelled right, and in the DNS or /etc/hosts?", host)
              : fmt::format("is it up, does sshd listen there (--ssh-port), is a firewall in between? "
                            "Try: ssh {}{} true",
                            ssh_flags(port, "-p"), host)};
}

Error silent_host(const std::string& host, std::string_view step, Duration after) {
  return {Code::timeout,
          fmt::format("{}: no answer while {}, given up after {}", host, step, format_duration(after)),
          fmt::format("is it overloaded or cut off? Try: ssh -v {} true; --start-timeout sets the patience",
                      host)};
}

Error explain_openssh(const Host& host, std::string_view words, std::string_view status) {
  struct Sign {
    std::string_view text;
    Code code;
    std::string_view hint;
  };
  static constexpr std::array signs{
      Sign{"REMOTE HOST IDENTIFICATION HAS CHANGED", Code::host_key,
           "if you know why it changed, remove the old key as ssh says above, and log in once by hand"},
      Sign{"Host key verification failed", Code::host_key,
           "log in once by hand (ssh {}) and compare the fingerprint, or use --ssh-accept-new"},
      Sign{"Permission denied", Code::auth,
           "does `ssh {} true` work without a password? If not: ssh-copy-id {}"},
      Sign{"Too many authentication failures", Code::auth, "name the right key with -i"},
      Sign{"Could not resolve", Code::unreachable, "is {} spelled right, and in the DNS or /etc/hosts?"},
      Sign{"Connection refused", Code::unreachable, "is sshd running there, and on that port (--ssh-port)?"},
      Sign{"No route to host", Code::unreachable, "is {} up and connected?"},
      Sign{"timed out", Code::unreachable, "is {} up, is a firewall in between?"},
      Sign{"Connection reset", Code::try_again, "the host's sshd may be overloaded (MaxStartups): try again"},
      Sign{"Connection closed", Code::try_again,
           "the host's sshd may be overloaded (MaxStartups): try again"},
      Sign{"Bad configuration option", Code::config, "correct that line of ssh's configuration"},
  };
  // The last line that is not a "Warning: Permanently added" says why; the loud banner has many.
  std::string said;
  for (const auto line : split(words, '\n')) {
    const auto text = trim(line);
    if (!text.empty() && !text.starts_with("Warning: Permanently added")) said = text;
  }
  const auto target = host.user.empty() ? host.name : host.user + "@" + host.name;
  for (const auto& sign : signs) {
    if (words.find(sign.text) == std::string_view::npos) continue;
    const bool changed = sign.text.starts_with("REMOTE");
    return {sign.code,
            fmt::format(
                "{}: ssh says: {}", host.name,
                changed ? "REMOTE HOST IDENTIFICATION HAS CHANGED; " + quoted(said, 300) : quoted(said, 300)),
            fmt::format(fmt::runtime(sign.hint), target, target)};
  }
  return {Code::bootstrap,
          fmt::format("{}: ssh {}{}", host.name, status, said.empty() ? "" : ": " + quoted(said, 300)),
          fmt::format("try it by hand: ssh {} /bin/sh -c true", target)};
}

}  // namespace trainrun::transport
