#include "launcher/transport/openssh_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/base/strings.h"
#include "launcher/transport/ssh_words.h"

namespace trainrun::transport {
namespace {

struct Sign {
  std::string_view text;
  Code code;
  std::string_view hint;  // {}: the host, as ssh wants it
};
constexpr std::array signs{
    Sign{"REMOTE HOST IDENTIFICATION HAS CHANGED", Code::host_key,
         "if you know why it changed, remove that line from known_hosts, and log in once by hand"},
    Sign{"Host key verification failed", Code::host_key,
         "log in once by hand (ssh {}) and compare the fingerprint, or use --ssh-accept-new"},
    Sign{"Permission denied", Code::auth,
         "does `ssh {} true` work without a password? If not: ssh-copy-id {}"},
    Sign{"Too many authentication failures", Code::auth, "name the right key with -i"},
    Sign{"Could not resolve", Code::unreachable, "is {} spelled right, and in DNS or /etc/hosts?"},
    Sign{"Connection refused", Code::unreachable, "is sshd running there, and on that port (--ssh-port)?"},
    Sign{"No route to host", Code::unreachable, "is {} up and connected?"},
    Sign{"timed out", Code::unreachable, "is {} up, is a firewall in between?"},
    Sign{"Connection reset", Code::try_again, "the host's sshd may be overloaded (MaxStartups): try again"},
    Sign{"Connection closed", Code::try_again, "the host's sshd may be overloaded (MaxStartups): try again"},
    Sign{"Bad configuration option", Code::config, "correct that line of ssh's configuration"},
};

// What ssh says of a connection that a ProxyJump or ProxyCommand is to make for it: it has no address.
constexpr std::string_view no_address = "UNKNOWN port 65535";

struct Said {
  std::vector<std::string_view> lines;  // that say something
  bool by_the_hop = false;              // a jump host or ProxyCommand failed, and these are its words
};

// Of a hop that failed ssh only sees that the connection ended; why was said before that.
Said what_was_said(std::string_view words) {
  Said said;
  for (const auto line : split(words, '\n')) {
    const auto text = trim(line);
    if (!text.empty() && !text.starts_with("Warning: Permanently added")) said.lines.push_back(text);
  }
  said.by_the_hop = !said.lines.empty() && said.lines.back().find(no_address) != std::string_view::npos;
  if (!said.by_the_hop) return said;
  said.lines.pop_back();
  constexpr std::string_view seen_from_here = "kex_exchange_identification: Connection closed by remote host";
  if (!said.lines.empty() && said.lines.back() == seen_from_here) said.lines.pop_back();
  std::erase(said.lines, "stdio forwarding failed");
  return said;
}

// The last line with the sign, or of all: the loud banner has many.
std::string_view line_of(const Said& said, const Sign* sign) {
  const auto has = [sign](std::string_view line) { return line.find(sign->text) != std::string_view::npos; };
  const auto found =
      sign == nullptr ? said.lines.rend() : std::find_if(said.lines.rbegin(), said.lines.rend(), has);
  if (found != said.lines.rend()) return *found;
  return said.lines.empty() ? std::string_view() : said.lines.back();
}

// "Offending ED25519 key in /home/me/.ssh/known_hosts:3"
std::string changed_key(const Said& said) {
  const auto named = std::find_if(said.lines.begin(), said.lines.end(),
                                  [](auto it) { return it.starts_with("Offending "); });
  return "REMOTE HOST IDENTIFICATION HAS CHANGED; " +
         quoted(named == said.lines.end() ? said.lines.back() : *named, 300);
}

const Sign* sign_in(const Said& said) {
  for (const auto& sign : signs)
    for (const auto line : said.lines)
      if (line.find(sign.text) != std::string_view::npos) return &sign;
  return nullptr;
}

// "No ED25519 host key is known for [gpu1]:2222 and you have requested strict checking." A host's banner can
// say that as well: nothing but a name, a port and a type gets into the command that we tell.
std::optional<Error> unknown_key(const Host& host, const Said& said) {
  constexpr std::string_view no = "No ", known = " host key is known for ",
                             strict = " and you have requested";
  constexpr std::array types{std::pair{"ED25519", "ed25519"}, std::pair{"ECDSA", "ecdsa"},
                             std::pair{"RSA", "rsa"}};
  for (const auto line : said.lines) {
    const auto at = line.find(known), end = line.find(strict);
    if (!line.starts_with(no) || end == std::string_view::npos || at > end) continue;
    const auto type = std::find_if(types.begin(), types.end(), [&](const auto& one) {
      return line.substr(no.size(), at - no.size()) == one.first;
    });
    auto name = line.substr(at + known.size(), end - at - known.size());
    std::optional<std::uint16_t> port = 22;
    if (const auto bracket = name.find("]:"); name.starts_with('[') && bracket != std::string_view::npos) {
      port = parse_unsigned<std::uint16_t>(name.substr(bracket + 2));
      name = name.substr(1, bracket - 1);
    }
    if (type == types.end() || !port || !is_host_name(name)) continue;
    return Error{
        Code::host_key, fmt::format("{}: its host key is not known", host.name),
        fmt::format("log in once by hand and compare the fingerprint, or pass --ssh-accept-new once, or "
                    "(unless a jump host is between): ssh-keyscan -H {}-t {} {} >> ~/.ssh/known_hosts",
                    *port == 22 ? std::string() : fmt::format("-p {} ", *port), type->second, name)};
  }
  return std::nullopt;
}

// The jump host let us in, and could or would not open the connection to the host.
Error beyond_the_hop(const Host& host, std::string_view line) {
  const auto why = trim(line.substr(line.find("open failed: ") + std::string_view("open failed: ").size()));
  const bool forbidden = why.starts_with("administratively prohibited");
  return {
      Code::unreachable,
      fmt::format("{}: its jump host accepts us but cannot connect to it: {}", host.name, quoted(why, 300)),
      forbidden ? std::string("the sshd of the jump host forbids forwarding (AllowTcpForwarding, PermitOpen)")
                : fmt::format("is {} up, does sshd listen there, and does the jump host know its name? "
                              "HostName of ssh_config is what the jump host looks up",
                              host.name)};
}

Error failed_hop(const Host& host, const std::string& target, const Said& said) {
  if (said.lines.empty()) {
    return {Code::try_again,
            fmt::format("{}: its jump host or ProxyCommand ended the connection without a word", host.name),
            fmt::format("ssh -v {} true shows each hop", target)};
  }
  if (said.lines.back().find("open failed: ") != std::string_view::npos)
    return beyond_the_hop(host, said.lines.back());
  const auto* sign = sign_in(said);
  if (sign != nullptr && sign->text.starts_with("REMOTE"))
    return {sign->code,
            fmt::format("{}: not reached through its jump host: ssh says: {}", host.name, changed_key(said)),
            std::string(sign->hint)};
  const auto code = sign == nullptr ? Code::unreachable : sign->code;
  return {code,
          fmt::format("{}: not reached, its jump host or ProxyCommand failed: {}", host.name,
                      quoted(line_of(said, code == Code::host_key ? nullptr : sign), 300)),
          code == Code::host_key
              ? std::string("log in to the jump host once by hand, and compare its fingerprint")
              : fmt::format("log in to the jump host by hand; ssh -v {} true shows each hop", target)};
}

}  // namespace

Error explain_openssh(const Host& host, std::string_view words, std::string_view status) {
  const auto target = host.user.empty() ? host.name : host.user + "@" + host.name;
  const auto said = what_was_said(words);
  if (said.by_the_hop) return failed_hop(host, target, said);
  if (auto unknown = unknown_key(host, said)) return *std::move(unknown);
  const auto* sign = sign_in(said);
  if (sign == nullptr) {
    const auto line = line_of(said, nullptr);
    return {Code::bootstrap,
            fmt::format("{}: ssh {}{}", host.name, status, line.empty() ? "" : ": " + quoted(line, 300)),
            fmt::format("try it by hand: ssh {} /bin/sh -c true", target)};
  }
  const bool changed = sign->text.starts_with("REMOTE");
  return {sign->code,
          fmt::format("{}: ssh says: {}", host.name,
                      changed ? changed_key(said) : quoted(line_of(said, sign), 300)),
          fmt::format(fmt::runtime(sign->hint), target, target)};
}

}  // namespace trainrun::transport
