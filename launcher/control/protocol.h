// What `trainrun ctl` and a launcher say to each other: one JSON object a line, a reply for each request.
// Pure.
//
//   {"do":"world"}                            who is where: the reply is described in world_view.h
//   {"do":"remove-host","host":"gpu2"}        its workers are told, then the world goes on without it
//   {"do":"add-host","host":"gpu9:8"}         one host, written as for -H
//   {"do":"restart"}                          a new generation
//   {"do":"restart-worker","rank":3}          {"do":"stop-worker","rank":3}
//                                             remove-host, stop-worker and restart take "force":true too
//   {"do":"end"}                              the job, as SIGTERM would
//   {"do":"version"}                          answered by the server itself: see Identity
//
// Replies: {"ok":true,...}, with "text" where a sentence says what was done, or
// {"ok":false,"code":"usage","error":"there is no rank 7","try":"..."}.
//
// A request with an unknown command or key, or a key twice, is refused: a slip must not do half of what was
// meant. In replies unknown keys are skipped, so that an older ctl understands a newer launcher.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "host-discovery/host.h"
#include "launcher/base/error.h"
#include "launcher/control/world_view.h"

namespace trainrun::control {

inline constexpr std::size_t longest_request = 64 * 1024;       // bytes, without the newline
inline constexpr std::size_t longest_reply = 16 * 1024 * 1024;  // the world of some 100,000 ranks

struct Command {
  enum class Kind : std::uint8_t {
    world,
    remove_host,
    add_host,
    restart_world,
    restart_worker,
    stop_worker,
    end,
  };
  Kind kind = Kind::world;
  Host host{};         // of add_host; of remove_host the name alone
  int rank = 0;        // of restart_worker and stop_worker; not checked against the world
  bool force = false;  // of remove_host and stop_worker: also when the rest cannot hold the smallest world;
                       // of restart_world: also when state in memory is lost

  friend bool operator==(const Command&, const Command&) = default;
};

struct VersionQuestion {
  friend bool operator==(const VersionQuestion&, const VersionQuestion&) = default;
};
using Request = std::variant<Command, VersionQuestion>;

// `line` without its newline. The error is what the peer is to be told, with Code::usage.
Result<Request> parse_request(std::string_view line);
// The line of a request, without a newline. Of a host that was parsed from text the same text follows, but
// for ranges and ssh's identity.
std::string to_line(const Request& request);

// One host as `add` and `remove` take it: the grammar of -H, but no ranges.
Result<Host> parse_host(std::string_view text);
// The name alone of a host that is to leave.
Result<Host> parse_leaving_host(std::string_view text);

// Replies, without a newline.
std::string ok_reply(std::string_view text = {});
// `schema`: of what was asked for, where good answers tell theirs.
std::string error_reply(const Error& error, std::optional<int> schema = {});

// The text of a good reply, which may be empty, or the error that the launcher gave. A line that is no reply
// is an error with Code::protocol.
Result<std::string> read_reply(std::string_view line);

// Which launcher it is that answers.
struct Identity {
  std::string version, job;
  std::int64_t pid = 0;
  std::int64_t started = 0;  // seconds since 1970
  std::string command{};     // its command line, values of -x blotted out

  friend bool operator==(const Identity&, const Identity&) = default;
};

std::string to_json(const Identity& identity);  // the reply to {"do":"version"}
Result<Identity> read_identity(std::string_view reply);

}  // namespace trainrun::control
