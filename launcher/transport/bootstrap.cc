#include "launcher/transport/bootstrap.h"

#include <fmt/format.h>

#include <utility>

#include "launcher/base/strings.h"
#include "launcher/base/utf8.h"

namespace trainrun::transport {

namespace {

constexpr std::size_t noise_kept = 4096;
constexpr std::size_t noise_limit = 256 * 1024;
constexpr std::size_t report_limit = 4096;

bool is_plain_path(std::string_view path) {
  constexpr std::string_view plain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-+@%:=,";
  return path.size() > 1 && path.size() <= 1024 && path.front() == '/' &&
         path.find_first_not_of(plain) == std::string_view::npos;
}

// In the script: no ', no \ beyond printf's \n, no ! and no newline, since it is quoted once for a login
// shell that may be sh, csh or fish. {{ and }} are fmt's.
//
// no: report and leave. go: become the agent; what stands around exec speaks only when exec itself fails
// (another kind of machine, a broken file, noexec): the trap under dash and busybox, the line after it under
// bash. ok: a file that only we, or root, could put there: it and its directory are ours or root's, and
// nobody else can write to them (the letters of `ls -ldn`; a link has them all, and is refused). is: its
// bytes are right, as far as the host can tell (a crash or a bad disk leaves the size as it was). The strict
// umask is for the upload alone: workers get the login's.
constexpr std::string_view script =
    "N={nonce};H={sha};"
    "no(){{ trap - 0;printf \"%s\\n\" \"$N failed $*\";exit 1;}};"
    "go(){{ g=$1;trap \"no exec cannot be executed: \\$g\" 0;trap - 13;shopt -s execfail 2>/dev/null;"
    "exec \"$g\" --greet \"$N\" {size};no exec cannot be executed: \"$g\";}};"
    "ok(){{ [ -s \"$1\" ]&&[ -x \"$1\" ]||return 1;for x in \"$1\" \"${{1%/*}}/.\";do "
    "set -- \"$1\" $(ls -ldn \"$x\");case $2 in ?????w*|????????w*) return 1;;esac;"
    "[ \"$4\" = 0 ]||[ -O \"$x\" ]||return 1;done;}};"
    "is(){{ command -v sha256sum >/dev/null 2>&1||return 0;s=$(sha256sum <\"$1\");s=${{s%% *}};"
    "[ \"$s\" = $H ];}};"
    "for f in {places};do ok \"$f\"&&go \"$f\";done;"
    "d={dir};f=$d/agent-$H;"
    "ok \"$f\"&&[ \"$(($(wc -c <\"$f\")))\" = {size} ]&&is \"$f\"&&go \"$f\";"
    "u=$(umask);umask 077;"
    "m=$(uname -m);[ \"$m\" = {machine} ]||no machine \"$m\";"
    "e=$(mkdir -p \"$d\" 2>&1)||no directory \"$e\";"
    "[ -O \"$d\" ]||no owner \"$d\";"
    "case $(ls -ldn \"$d/.\") in ?????w*|????????w*) no open \"$d\";;esac;"
    "t=$d/.agent-$N;"
    "e=$( (:>\"$t\") 2>&1)||no create \"$e\";"
    "trap \"\" 13;printf \"%s\\n\" \"$N send\";"
    "e=$(head -c {size} 2>&1 >\"$t\")||{{ rm -f \"$t\";no write \"$e\";}};"
    "s=$(wc -c <\"$t\");s=$((s));[ \"$s\" = {size} ]||{{ rm -f \"$t\";no size \"$s of {size} bytes "
    "arrived\";}};"
    "is \"$t\"||{{ rm -f \"$t\";no hash \"$s\";}};"
    "sync \"$t\" 2>/dev/null;"
    "e=$(chmod 700 \"$t\" 2>&1)&&e=$(mv -f \"$t\" \"$f\" 2>&1)||{{ rm -f \"$t\";no rename \"$e\";}};"
    "[ -x \"$f\" ]||no noexec \"$f\";"
    "umask \"$u\";"
    "go \"$f\"";

// Before the script, in words that sh, csh and fish all know: one to three processes less, a tenth of what a
// login costs a host. These words can ask for the owner, but not for the mode: that is enough in our own
// home, where we made the directory for ourselves alone, and nowhere else. What is not found goes on to the
// script.
constexpr std::string_view cached =
    "test -x {file} && test -O {file} && test -O {dir} && exec {file} --greet {nonce} {size}; ";

}  // namespace

Result<std::string> bootstrap_line(const AgentImage& image, std::string_view nonce,
                                   std::string_view agent_dir, const std::vector<std::string>& places,
                                   Bootstrap how) {
  std::string directory = "${XDG_CACHE_HOME:-$HOME/.cache}/trainrun";
  std::string at_home = "~/.cache/trainrun";  // where the cache is then, most likely; empty: elsewhere
  if (!agent_dir.empty()) {
    const bool tilde = agent_dir.starts_with("~/");
    const auto path = tilde ? agent_dir.substr(1) : agent_dir;
    if (!is_plain_path(path)) {
      return fail(Code::usage, fmt::format("--agent-dir {} is not a usable directory", quoted(agent_dir)),
                  "give an absolute path (or ~/...) of letters, digits and /._-+@%:=,");
    }
    directory = tilde ? "$HOME" + std::string(path) : std::string(path);
    at_home = tilde ? agent_dir : "";
  }
  const auto size = image.bytes.size();
  std::string first, list;
  for (const auto& place : places) {
    if (is_plain_path(place)) list += (list.empty() ? "" : " ") + place;
  }
  if (how == Bootstrap::quick && !at_home.empty()) {
    first = fmt::format(fmt::runtime(cached), fmt::arg("file", at_home + "/agent-" + image.sha256),
                        fmt::arg("dir", at_home), fmt::arg("nonce", nonce), fmt::arg("size", size));
  }
  return first + "exec /bin/sh -c '" +
         fmt::format(fmt::runtime(script), fmt::arg("nonce", nonce), fmt::arg("sha", image.sha256),
                     fmt::arg("places", list.empty() ? "\"\"" : list), fmt::arg("dir", directory),
                     fmt::arg("machine", image.machine), fmt::arg("size", size)) +
         "'";
}

BootstrapDialogue::BootstrapDialogue(const AgentImage& image, std::string nonce, std::string host,
                                     Bootstrap how)
    : nonce_(std::move(nonce)),
      host_(std::move(host)),
      machine_(image.machine),
      size_(image.bytes.size()),
      how_(how) {}

BootstrapDialogue::Step BootstrapDialogue::fail_with(Error error, std::size_t used) {
  error_ = std::move(error);
  return {Next::failed, used};
}

// Noise need not end in a newline ("Last login..." and a prompt), so a sentinel is looked for anywhere in a
// line.
BootstrapDialogue::Step BootstrapDialogue::feed(std::string_view bytes) {
  std::size_t used = 0;
  while (used < bytes.size()) {
    const auto newline = bytes.find('\n', used);
    const auto end = newline == std::string_view::npos ? bytes.size() : newline + 1;
    pending_.append(bytes.substr(used, end - used));
    seen_ += end - used;
    used = end;
    if (seen_ > noise_limit) {
      return fail_with(
          {Code::bootstrap,
           fmt::format("{}: the login shell printed more than {} KiB before the agent could start", host_,
                       noise_limit / 1024),
           "make the shell's start files silent when they are not interactive"},
          used);
    }
    if (newline == std::string_view::npos) break;
    const auto line = std::exchange(pending_, {});
    const auto at = line.find(nonce_ + ' ');
    if (at == std::string::npos) {
      noise_.append(line, 0, noise_kept - std::min(noise_kept, noise_.size()));
      continue;
    }
    const auto word = std::string_view(line).substr(at + nonce_.size() + 1);
    noise_.append(line, 0, std::min(at, noise_kept - std::min(noise_kept, noise_.size())));
    if (word == "ready\n") return {Next::ready, used};
    if (word == "send\n" && !image_asked_) {
      image_asked_ = true;
      return {Next::send_image, used};
    }
    if (word.starts_with("failed ")) return fail_with(explain(trim(word.substr(7, report_limit))), used);
    noise_.append(line, at, noise_kept - std::min(noise_kept, noise_.size()));
  }
  return {Next::need_more, used};
}

Error BootstrapDialogue::explain(std::string_view report) const {
  const auto blank = report.find(' ');
  const auto stage = report.substr(0, blank);
  const auto words = blank == std::string_view::npos ? std::string_view{} : report.substr(blank + 1);
  const std::string elsewhere = "choose another directory on that host with --agent-dir";
  const auto error = [&](std::string what, std::string hint) {
    return Error{Code::bootstrap, fmt::format("{}: {}", host_, what), std::move(hint)};
  };
  const auto said = quoted(words, 300);
  const auto system = printable(words.substr(0, 300));  // its own words: it has put quotes where they belong
  if (stage == "machine") {
    return error(fmt::format("it is a {} machine, and this trainrun's agent is for {}", said, machine_),
                 "use hosts of one kind, or a trainrun that was built for that machine");
  }
  if (stage == "directory" || stage == "create") {
    return error(fmt::format("the agent's directory cannot be written: {}", system), elsewhere);
  }
  if (stage == "owner")
    return error(fmt::format("the agent's directory {} is another user's", said), elsewhere);
  if (stage == "open") {
    return error(fmt::format("the agent's directory {} can be written by other users", said),
                 fmt::format("chmod go-w it there, or {}", elsewhere));
  }
  if (stage == "write" || stage == "size" || stage == "rename") {
    return error(fmt::format("the agent ({} bytes) could not be stored: {}", size_, system),
                 fmt::format("is the disk full, or a quota reached? Make room there, or {}", elsewhere));
  }
  if (stage == "hash") {
    return error("the agent arrived damaged there (its hash differs)",
                 "try again; if it stays so, check that host");
  }
  if (stage == "noexec") {
    return error(fmt::format("the agent may not be executed where it was stored: {}", said),
                 fmt::format("that file system is mounted noexec; {}", elsewhere));
  }
  if (stage == "exec") {
    return error(
        fmt::format("the agent {}", system),
        fmt::format("is that file system mounted noexec? Then {}. Does `uname -m` there say {}? If not, "
                    "remove that file",
                    elsewhere, machine_));
  }
  return error("the agent could not be started: " + printable(report.substr(0, 300)), {});
}

Error BootstrapDialogue::closed(std::string_view words) const {
  auto said = trim(words);
  if (said.empty()) said = trim(noise_.empty() ? pending_ : noise_);
  return {
      how_ == Bootstrap::quick ? Code::try_again : Code::bootstrap,
      fmt::format("{}: logged in, but the session ended before the agent could speak{}", host_,
                  said.empty() ? std::string() : ": " + quoted(said, 300)),
      fmt::format("does `ssh {} /bin/sh -c true` work, and does `uname -m` there say {}?", host_, machine_)};
}

}  // namespace trainrun::transport
