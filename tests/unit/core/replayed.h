// What goes into a machine that a test drives, kept as a launcher keeps it; at the end another machine
// decides the same by it.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "launcher/core/journal.h"
#include "launcher/core/replay.h"

namespace trainrun::core {

class Replayed {
 public:
  Replayed(const JobSpec& spec, const Placement& first, Instant began)
      : began_(began), bytes_(journal::begin({"1.0", "b", "then", began, spec, first})) {}
  Replayed(const Replayed&) = delete;
  Replayed& operator=(const Replayed&) = delete;
  ~Replayed() { check(); }

  void step(Instant now, const JobEvent& event, const JobActions& actions) {
    bytes_ += journal::record(now - began_, event, actions);
    ++steps_;
  }

 private:
  void check() const {
    auto reader = journal::Reader::open(bytes_);
    REQUIRE(reader);
    auto replay = Replay::of(reader->header());
    REQUIRE(replay);
    for (int i = 1; i <= steps_; ++i) {
      const auto entry = reader->next();
      REQUIRE(entry);
      const auto decided = replay->step(std::get<journal::Step>(entry->value()));
      REQUIRE(decided);
      if (!decided->as_then) FAIL_CHECK("record " << i << " is decided otherwise in the replay");
      if (!decided->as_then) return;
    }
  }

  const Instant began_;
  std::string bytes_;
  int steps_ = 0;
};

}  // namespace trainrun::core
