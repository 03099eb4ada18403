// When ranks of an elastic Horovod program are told that the hosts change, without a socket and without a
// clock of its own. One rank hears it for all, rank 0: at its next commit Horovod hands on what it was told,
// all ranks leave their world at the same step and ask for their place in the next.
//
//   - It is told until it has acknowledged, by each of its addresses in turn.
//   - It is told again, with the same stamp, while nobody leaves the world: Horovod drops what it hears
//     within hvd.init. What it has acted upon already has no effect a second time.
//   - It is never told that hosts go and none comes. Horovod would not send the state to newcomers then, who
//     wait for it: each notice that hosts go says that some come as well.
//   - A rank whose address is not known yet hears it when it is.
//
// Not thread-safe. The callbacks must not call back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/base/id.h"
#include "launcher/base/time.h"
#include "rendezvous/adapters/horovod_notice.h"

namespace trainrun::rendezvous {

class HorovodNotices {
 public:
  struct Callbacks {
    // Connects to the worker's port on its host, says these bytes and brings the answer by received() or
    // refused(). The number is never used again.
    std::function<void(std::uint32_t attempt, WorkerId, HorovodEndpoint, const std::string& bytes)> deliver;
    std::function<void(std::uint32_t attempt)> drop;
    // By no address could it be told; once a notice, which is tried further.
    std::function<void(WorkerId, const std::string& why)> failed;
  };
  static constexpr Duration reply_limit = seconds(20), first_pause = seconds(1), longest_pause = seconds(60),
                            first_repeat = seconds(5);

  explicit HorovodNotices(Callbacks callbacks) : callbacks_(std::move(callbacks)) {}

  // Where the worker can be told, for as long as it lives.
  void registered(WorkerId worker, HorovodService service, Instant now);
  // Of a world: its workers by rank. What was to be told is of the past.
  void begin(const std::vector<WorkerId>& world);
  // `clock`: seconds since 1970, as Horovod stamps its own notices; they go up whatever it says.
  void announce(bool hosts_leave, std::int64_t clock, Instant now);
  // A rank has left the world: so will the others, and nothing need be told any more.
  void interrupted();
  void received(std::uint32_t attempt, std::string_view bytes, bool end, Instant now);
  void refused(std::uint32_t attempt, const std::string& why, Instant now);

  [[nodiscard]] std::optional<Instant> next_deadline() const;
  void advance(Instant now);

 private:
  struct Notice {
    std::int64_t stamp = 0;
    HorovodChange change = HorovodChange::added;
    std::size_t address = 0;    // the next one to try
    std::uint32_t attempt = 0;  // under way; 0: none
    std::string reply{};
    std::optional<Instant> next{};  // the attempt is given up, or the next one begins
    Duration pause{};
    bool told_failure = false;
    int acknowledged = 0;
  };
  [[nodiscard]] std::vector<HorovodEndpoint> ways(const HorovodService& service) const;
  void try_next(Instant now);
  void attempt_failed(const std::string& why, Instant now);
  void end_attempt();

  Callbacks callbacks_;
  std::map<WorkerId, HorovodService> services_;
  WorkerId coordinator_{};  // 0: there is no world
  bool interrupted_ = false;
  std::optional<Notice> notice_;
  std::int64_t last_stamp_ = 0;
  std::uint32_t last_attempt_ = 0;
};

}  // namespace trainrun::rendezvous
