#include "cli/remote_shell.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "cli/letters.h"
#include "cli/value.h"
#include "launcher/base/strings.h"

namespace trainrun::cli {

namespace {

using Words = std::vector<std::string_view>;

constexpr std::string_view agents[] = {"plm_rsh_agent", "plm_ssh_agent", "orte_rsh_agent", "pls_rsh_agent"};
constexpr std::string_view arguments[] = {"plm_rsh_args", "plm_ssh_args"};

template <class Table>
bool is_in(const Table& table, std::string_view word) {
  return std::find(std::begin(table), std::end(table), word) != std::end(table);
}

Words words_of(std::string_view text) {
  Words out;
  for (const auto word : split(text, ' '))
    if (!word.empty()) out.push_back(word);
  return out;
}

bool same(std::string_view one, std::string_view other) { return lower(one) == lower(other); }

// Options of ssh's configuration that change nothing here: nobody is asked, and connections are watched.
bool is_needless(std::string_view name) {
  constexpr std::string_view all[] = {"BatchMode",           "LogLevel",
                                      "ConnectTimeout",      "ConnectionAttempts",
                                      "ServerAliveInterval", "ServerAliveCountMax",
                                      "TCPKeepAlive",        "RequestTTY",
                                      "ForwardX11",          "PasswordAuthentication"};
  return std::any_of(std::begin(all), std::end(all), [&](std::string_view one) { return same(one, name); });
}

class Reader {
 public:
  explicit Reader(const std::string& spelled) : spelled_(spelled) {}

  Result<std::vector<Setting>> read(const Words& words) {
    for (std::size_t at = 0; at < words.size(); ++at) {
      const auto word = words[at];
      const auto letter = word.substr(0, 2);
      if (is_in(silent, word)) continue;
      if (!is_in(with_value, letter)) return refuse(word);
      auto value = word.substr(2);
      if (value.empty() && ++at < words.size()) value = words[at];
      if (value.empty() || !take(letter, value)) return refuse(fmt::format("{} {}", letter, value));
    }
    return std::move(out_);
  }

  [[nodiscard]] tl::unexpected<Error> refuse(std::string_view what) const {
    return fail(
        Code::usage, fmt::format("{}: {} is not supported", spelled_, quoted(trim(what), 60)),
        "hosts are reached by ssh: write -p PORT and -i FILE, and whatever else ssh is told into a file "
        "for --ssh-config");
  }

 private:
  static constexpr std::string_view silent[] = {"-q", "-x", "-T", "-n", "-a", "-k"};
  static constexpr std::string_view with_value[] = {"-p", "-i", "-F", "-o"};

  bool take(std::string_view letter, std::string_view value) {
    if (letter == "-p") return put(Option::ssh_port, value);
    if (letter == "-i") return put(Option::ssh_identity_file, value);
    if (letter == "-F") return put(Option::ssh_config, value);
    const auto equals = std::min(value.find('='), value.size());
    const auto name = value.substr(0, equals);
    const auto said = value.substr(std::min(equals + 1, value.size()));
    if (same(name, "Port")) return put(Option::ssh_port, said);
    if (same(name, "IdentityFile")) return put(Option::ssh_identity_file, said);
    // What "no" takes beyond new keys, a key that has changed, is refused here all the same.
    if (same(name, "StrictHostKeyChecking"))
      return same(said, "yes") || same(said, "ask") ||
             ((same(said, "no") || same(said, "off") || same(said, "accept-new")) &&
              put(Option::ssh_accept_new, "true"));
    return is_needless(name);
  }

  bool put(Option option, std::string_view value) {
    out_.push_back({option, std::string(value), spelled_});
    return check_setting(out_.back()).has_value();
  }

  const std::string& spelled_;
  std::vector<Setting> out_;
};

}  // namespace

bool is_about_remote_shell(std::string_view parameter) {
  return is_remote_shell(parameter) || is_in(arguments, parameter);
}
bool is_remote_shell(std::string_view parameter) { return is_in(agents, parameter); }

Result<std::vector<Setting>> read_remote_shell(std::string_view parameter, const std::string& value,
                                               const std::string& spelled) {
  Reader reader(spelled);
  if (!is_remote_shell(parameter)) return reader.read(words_of(value));
  // Several with ':' between them; the first that is there is taken, and that is ssh.
  for (const auto agent : split(value, ':')) {
    auto words = words_of(agent);
    if (words.empty() || words.front().substr(words.front().rfind('/') + 1) != "ssh") continue;
    words.erase(words.begin());
    return reader.read(words);
  }
  return reader.refuse(value);
}

}  // namespace trainrun::cli
