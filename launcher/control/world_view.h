// The world as `trainrun ctl world` shows it, and its JSON. Pure.
//
//   {"ok":true,"schema":1,"job_id":"0123456789abcdef","elastic":true,"generation":3,"phase":"running",
//    "min_np":4,"max_np":8,"restarts":1,"restarts_used":1,"restart_limit":10,
//    "ranks":[{"rank":0,"worker":7,"host":"gpu1","local_rank":0,"pid":4711,"state":"running","seconds":12.5}],
//    "newcomers":[{"rank":1,"worker":8,"host":"gpu1","local_rank":1,"pid":4712,"state":"loading","seconds":2.5}],
//    "newcomers_in":3.0,
//    "hosts":[{"name":"gpu1","state":"ready","slots":2,"ranks":1,"note":"","cooldown":20.0}]}
//
// The words that a launcher of this version says (those of core's to_string and state_of):
//   phase              gathering, forming, running, draining, cooling, closing, done
//   state of rank      starting, loading, waiting, running, ended
//   state of newcomer  starting, loading, ready
//   state of host      absent, dialling, ready, stopping, unlisted
//
// `pid` is left out before the process is started; `seconds` (since the state began), `cooldown` (seconds
// until the host is used again) and `newcomers_in` where they are not known or not running. `schema` grows
// when a key changes its meaning, not when one is added.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/base/error.h"
#include "launcher/base/time.h"

namespace trainrun::control {

struct RankView {
  int rank = 0;
  std::uint32_t worker = 0;
  std::string host;
  int local_rank = 0;
  std::int64_t pid = 0;  // on its host; 0: not started, and no number for anybody to signal
  std::string state;
  std::optional<Duration> age{};  // how long it has been in this state

  friend bool operator==(const RankView&, const RankView&) = default;
};

struct HostView {
  std::string name;
  std::string state;
  int slots = 0;
  int ranks = 0;       // how many of this generation sit there
  std::string note{};  // why it is as it is, for people; may be empty
  std::optional<Duration> cooldown{};

  friend bool operator==(const HostView&, const HostView&) = default;
};

struct WorldView {
  bool elastic = true;  // its hosts and ranks may change
  std::uint32_t generation = 0;
  std::string phase, job_id;
  int min_np = 0, max_np = 0;
  int restarts = 0;       // of the whole job
  int restarts_used = 0;  // of those that count: within the window of --reset-limit
  int restart_limit = 0;
  std::vector<RankView> ranks;             // by rank
  std::vector<RankView> newcomers{};       // beside them; the world goes on while they start
  std::optional<Duration> newcomers_in{};  // others are started then, after the failure of one
  std::vector<HostView> hosts;             // in the order of the job

  friend bool operator==(const WorldView&, const WorldView&) = default;
};

// The whole reply to {"do":"world"}: what a handler returns.
std::string to_json(const WorldView& world);
// The same, back; the error of a bad reply, or Code::protocol for what is no world.
Result<WorldView> read_world(std::string_view reply);

}  // namespace trainrun::control
