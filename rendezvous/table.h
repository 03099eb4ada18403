// The rendezvous itself: who is in the world of this generation, what they have put down for each other, and
// who waits for what until when. Pure: it reads no clock and owns no connection; every call returns the
// replies that are now due. Requests of another generation than the current one are refused, and a new
// generation starts with nothing of the old one, but for members that wait for their place in it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "launcher/base/id.h"
#include "launcher/base/time.h"
#include "rendezvous/event.h"
#include "rendezvous/meetings.h"
#include "rendezvous/messages.h"
#include "rendezvous/seats.h"
#include "rendezvous/store.h"

namespace trainrun::rendezvous {

struct Outgoing {
  std::uint32_t connection = 0;
  std::uint32_t request = 0;              // the id that the client gave it
  std::shared_ptr<const ReplyBody> body;  // replies to many waiters share one
};
using Outbox = std::vector<Outgoing>;

class Table {
 public:
  // `time_limit`: how long, in a world that was described beforehand, the table waits for lost() after a
  // member's connection closed without leave, since the launcher knows better how the member ended. In an
  // open world nobody knows better, and the verdict comes at once.
  explicit Table(Duration time_limit = milliseconds(200)) : time_limit_(time_limit) {}

  // Starts a generation; one that runs is ended. With members (one a rank, in order) they alone may join;
  // with none, the first `size` that come.
  Outbox begin(World world, Instant now);
  Outbox apply(std::uint32_t connection, const Request& request, Instant now);
  // `how` it ended, should it be a member that had not left.
  Outbox closed(std::uint32_t connection, Instant now,
                std::string how = "its connection closed and it had not left");
  // Members that said where they are and say nothing any more: their processes stand still, or their hosts
  // cannot be reached.
  [[nodiscard]] std::vector<std::uint32_t> silent(Instant now) const;
  // The launcher's word about a member. Ignored for another generation, and when the verdict is out already.
  Outbox lost(Generation generation, Rank rank, std::string host, std::string how);
  // The same in a world that goes on: who has left is not missed.
  Outbox failed(Generation generation, Rank rank, std::string host, std::string how);
  // The same of one whose process has ended well. Had it not left, it leaves when its connection closes, or
  // has left if that has. Had it not joined, the others of a described world wait in vain.
  Outbox ended_well(Generation generation, Rank rank);
  // `kind`: ended as planned, or aborted by nobody in particular.
  Outbox end(Generation generation, std::string reason, Verdict::Kind kind = Verdict::Kind::ended);
  // The worker gets no place in any later generation.
  Outbox dismiss(WorkerId worker);
  // Members of the generation are told; those of `stopping` with `stop` set. Ignored for another generation
  // and for one that is over.
  Outbox announce(Generation generation, Change change, std::unordered_set<std::uint32_t> stopping,
                  std::string text);

  // What happened since the last call that the launcher is to know.
  [[nodiscard]] std::vector<Event> take_events() { return std::exchange(events_, {}); }

  // When advance() has something to do.
  [[nodiscard]] std::optional<Instant> next_deadline() const;
  Outbox advance(Instant now);

  [[nodiscard]] Generation generation() const { return {world_.generation}; }
  [[nodiscard]] const std::optional<Verdict>& verdict() const { return verdict_; }
  // All members came and left again.
  [[nodiscard]] bool has_left(const Request& request) const;
  [[nodiscard]] bool everybody_left() const;
  // One line for people: who has not joined, or not left, as far as that is known.
  [[nodiscard]] std::string outstanding() const;

 private:
  struct Waiter {
    enum class Kind : std::uint8_t { join, keys, ids, barrier, watch, next, news };
    Kind kind = Kind::watch;
    std::uint32_t connection = 0, request = 0;
    Instant deadline{};
    std::uint32_t rank = 0;    // join with a rank, barrier, news; ids: the rank that mints
    bool by_arrival = false;   // join without a rank
    bool elastic = false;      // join
    std::uint32_t worker = 0;  // next
    std::uint32_t after = 0;   // next: the generation that is left; news: the notice that was seen
    Member member{};           // join
    std::string name{};        // barrier, ids: for messages
    std::size_t bytes = 0;     // keys: what they hold together
    bool of_all = false;       // a gather over the whole world, where key i is rank i's
  };
  struct Suspect {  // its connection closed
    Instant until;  // we wait for lost()
    std::uint32_t rank = 0;
    std::string how;
  };
  struct Told {  // a notice
    Change change = Change::none;
    std::unordered_set<std::uint32_t> stopping;  // workers
    std::string text;
    std::optional<std::uint32_t> left{};
  };

  void handle(const Join& join, Waiter waiter, Instant now);
  void handle(const Leave& leave, const Waiter& waiter, Instant now);
  void handle(const Put& put, const Waiter& waiter, Instant now);
  void handle(const Get& get, const Waiter& waiter, Instant now);
  void handle(const Wait& wait, Waiter waiter, Instant now);
  void handle(const CompareAndSet& swap, const Waiter& waiter, Instant now);
  void handle(const Gather& gather, Waiter waiter, Instant now);
  void handle(const Barrier& barrier, Waiter waiter, Instant now);
  void handle(const PublishIds& publish, const Waiter& waiter, Instant now);
  void handle(const FetchIds& fetch, Waiter waiter, Instant now);
  void handle(const Watch& watch, Waiter waiter, Instant now);
  void handle(const Abort& abort, const Waiter& waiter, Instant now);
  void handle(const Next& next, Waiter waiter, Instant now);
  void handle(const News& news, Waiter waiter, Instant now);
  void handle(const Pulse& pulse, const Waiter& waiter, Instant now);
  void handle(const FetchMembers& fetch, const Waiter& waiter, Instant now);

  using Body = std::shared_ptr<const ReplyBody>;
  void answer(const Waiter& waiter, Body body) {
    outbox_.push_back({waiter.connection, waiter.request, std::move(body)});
  }
  void answer(const Waiter& waiter, ReplyBody body) {
    answer(waiter, std::make_shared<const ReplyBody>(std::move(body)));
  }
  void refuse(const Waiter& waiter, FailureKind kind, std::string message,
              std::vector<std::uint32_t> missing = {});
  [[nodiscard]] Body failure(FailureKind kind, std::string message,
                             std::vector<std::uint32_t> missing = {}) const;
  [[nodiscard]] ReplyBody values_of(const Keys& keys) const;
  void wait_for_keys(Waiter waiter, Keys keys, std::uint32_t wait_ms, Instant now);
  void grant_waits_for(const std::string& key);
  bool store_put(const Waiter& waiter, const std::string& key, const std::string& value);
  bool acceptable_key(const Waiter& waiter, const std::string& key, bool to_write);
  bool acceptable_group(const Waiter& waiter, const std::string& group);
  [[nodiscard]] bool takes_part(std::uint32_t rank, std::uint32_t reporter, Instant now) const;
  // Words: which of these wait in which operations; `mine`: the seat of one whose operation is another one.
  [[nodiscard]] std::string places(const std::vector<std::uint32_t>& ranks, const Seat* mine) const;
  // In an operation of any group, and says so.
  [[nodiscard]] bool waits(std::uint32_t rank, Instant now) const;
  [[nodiscard]] bool is_silent(std::uint32_t rank, Instant now) const;
  [[nodiscard]] bool acceptable_ranks(const std::vector<std::uint32_t>& ranks) const;
  [[nodiscard]] std::optional<std::uint32_t> left_of(const std::vector<std::uint32_t>& ranks) const;

  WaiterNumber add(Waiter waiter, std::uint32_t wait_ms, Instant now);
  WaiterNumber insert(Waiter waiter);  // with its deadline
  Waiter remove(WaiterNumber number);  // also from seats, meetings and wishes
  void time_out(WaiterNumber number);
  void break_barrier(std::string name);
  void seat_all(Instant now);
  void meet_if_complete(const std::string& name);
  void finish(Verdict verdict);    // the generation is over: everybody who waits for it hears so
  void break_up(Verdict verdict);  // the same, and the launcher is to know
  void depart(std::uint32_t rank);
  void leave_unmet(std::uint32_t rank);  // the same, and the others are to know
  void end_if_it_cannot_form();
  void tell(Told told);
  [[nodiscard]] Notice notice_for(std::uint32_t rank, std::uint32_t number) const;
  [[nodiscard]] std::optional<std::uint32_t> rank_of(std::uint32_t connection) const;
  // Ranks that have not joined, max_missing of them at most, if that is known.
  [[nodiscard]] std::vector<std::uint32_t> absent() const;
  [[nodiscard]] std::string not_joined() const;
  // `count`: how many there are, should these be the first of them.
  [[nodiscard]] std::string name_ranks(const std::vector<std::uint32_t>& ranks, std::size_t count = 0) const;
  [[nodiscard]] Outbox take() { return std::exchange(outbox_, {}); }

  Duration time_limit_;
  World world_{.generation = 0, .size = 0, .job = {}, .members = {}};
  bool described_ = false;  // the members were known beforehand
  bool formed_ = false;     // all have joined
  Seats seats_;
  std::uint32_t arrivals_ = 0;                                // joins that wait and have no rank yet
  std::unordered_map<std::uint32_t, std::uint32_t> seat_of_;  // connection -> rank, taken or waiting
  std::unordered_map<std::uint32_t, std::uint32_t> rank_of_worker_;
  std::uint32_t gave_up_ = 0;  // joins without a rank whose time has passed, and that were not tried again
  std::set<std::uint32_t> tired_;             // whose time to join has passed, and that have not tried again
  std::optional<std::uint32_t> never_comes_;  // the first rank whose process has ended well
  bool some_want_this_world_ = false;         // have come, and are not elastic
  bool elastic_ = true;                       // all that have joined are
  std::vector<Told> notices_;
  bool told_of_leaver_ = false;
  std::optional<Verdict> verdict_;
  std::deque<Suspect> suspects_;  // in the order of time; those that have left since are passed over

  Store store_;
  Meetings meetings_;
  WaiterNumber last_waiter_ = 0;
  std::map<WaiterNumber, Waiter> waiters_;
  std::map<std::uint32_t, std::set<WaiterNumber>> waiters_of_;  // by connection
  std::map<std::uint32_t, std::set<WaiterNumber>> nexts_of_;    // by worker
  std::set<std::pair<Instant, WaiterNumber>> deadlines_;
  Outbox outbox_;
  std::vector<Event> events_;
  std::unordered_set<std::uint32_t> dismissed_;  // workers, of all generations
};

}  // namespace trainrun::rendezvous
