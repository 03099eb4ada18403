// Random schedules of generations: whatever happens, every request is answered once and only once, unless its
// connection closed; nobody waits for what has come; and a placed worker is where the launcher put it.
#include <doctest/doctest.h>

#include <random>

#include "rendezvous/protocol.h"
#include "rendezvous/table.h"

using namespace trainrun;
using namespace trainrun::rendezvous;

namespace {

class Schedule {
 public:
  explicit Schedule(std::uint32_t seed) : random_(seed) {}

  void run(int steps) {
    for (int step = 0; step < steps; ++step) {
      turn();
      for (const auto& event : table_.take_events())
        if (const auto* broken = std::get_if<Broken>(&event)) CHECK(table_.verdict() == broken->verdict);
    }
    // In the end every deadline passes.
    now_ += hours_;
    take(table_.advance(now_));
    CHECK(open_.empty());
    CHECK_FALSE(table_.next_deadline());
  }
  int placed = 0, removed = 0, over = 0;

 private:
  static constexpr Duration hours_ = seconds(100'000);
  struct Question {
    std::uint32_t worker = 0, generation = 0;
    bool is_next = false;
  };

  std::uint32_t any(std::uint32_t below) { return static_cast<std::uint32_t>(random_() % below); }

  void take(const Outbox& outbox) {
    for (const auto& item : outbox) {
      const auto at = open_.find({item.connection, item.request});
      REQUIRE(at != open_.end());  // else it was answered twice, or after its connection closed
      const auto question = at->second;
      open_.erase(at);
      if (const auto* place = std::get_if<Placed>(item.body.get())) {
        ++placed;
        REQUIRE(question.is_next);
        CHECK(place->generation == generation_);
        CHECK(place->generation > question.generation);
        CHECK(workers_.at(place->rank) == question.worker);
        CHECK_FALSE(dismissed_.contains(question.worker));
      } else if (const auto* failure = std::get_if<Failure>(item.body.get())) {
        if (failure->kind == FailureKind::removed) {
          ++removed;
          CHECK(dismissed_.contains(question.worker));
        }
        if (failure->kind == FailureKind::over) {
          ++over;
          CHECK_FALSE(question.is_next);
        }
      }
    }
  }
  template <class Body>
  void ask(std::uint32_t connection, std::uint32_t generation, Body body, Question question = {}) {
    open_[{connection, ++id_}] = question;
    take(table_.apply(connection, Request{id_, generation, std::move(body)}, now_));
  }
  std::uint32_t some_generation() { return any(8) == 0 ? any(generation_ + 2) : generation_; }

  void turn() {
    const auto connection = any(12), worker = 1 + any(10), rank = any(5);
    switch (any(14)) {
      case 0: {
        workers_.clear();
        for (std::uint32_t w = 1; w <= 10; ++w)
          if (any(2) == 0 && !dismissed_.contains(w)) workers_.push_back(w);
        World world{++generation_, 0, {}, {}};
        if (workers_.empty()) workers_.push_back(100 + generation_);
        for (const auto w : workers_) {
          world.members.emplace_back();
          world.members.back().worker = w;
        }
        return take(table_.begin(world, now_));
      }
      case 1:
      case 2:
      case 3: {
        const auto leaves = some_generation();
        return ask(connection, leaves, Next{worker, any(1000)}, {worker, leaves, true});
      }
      case 4:
      case 5:
      case 6:
        return ask(connection, some_generation(), Join{rank, "h", "", any(1000), any(2) == 0, 0});
      case 7:
        for (auto it = open_.lower_bound({connection, 0});
             it != open_.end() && it->first.first == connection;)
          it = open_.erase(it);
        return take(table_.closed(connection, now_));
      case 8:
        if (any(4) != 0) return;
        dismissed_.insert(worker);
        return take(table_.dismiss({worker}));
      case 9:
        return ask(connection, some_generation(), News{rank, any(2), any(1000)});
      case 10:
        return take(table_.announce({some_generation()}, Change::added, {worker}, "x"));
      case 11:
        return ask(connection, some_generation(), Barrier{"b", {}, any(1000)});
      case 12:
        return any(3) == 0 ? take(table_.lost({some_generation()}, {rank}, "h", "x"))
                           : ask(connection, some_generation(), Watch{any(1000)});
      default:
        now_ += milliseconds(any(400));
        return take(table_.advance(now_));
    }
  }

  std::mt19937 random_;
  Table table_;
  Instant now_{seconds(1000)};
  std::uint32_t id_ = 0, generation_ = 0;
  std::vector<std::uint32_t> workers_;
  std::set<std::uint32_t> dismissed_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Question> open_;
};

}  // namespace

TEST_CASE("under random schedules every request is answered exactly once") {
  int placed = 0, removed = 0, over = 0;
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    Schedule schedule(seed);
    schedule.run(400);
    placed += schedule.placed;
    removed += schedule.removed;
    over += schedule.over;
  }
  CHECK(placed > 1000);  // else the schedules try nothing
  CHECK(removed > 100);
  CHECK(over > 1000);
}
