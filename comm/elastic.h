// A membership that outlives its worlds: after a failure or a change of the hosts the process goes on in the
// next generation.
#pragma once

#include <memory>
#include <optional>

#include "comm/environment.h"
#include "comm/state.h"
#include "comm/world.h"

namespace trainrun::comm {

// Whether a later generation can mend it. What ranks did wrong themselves stays wrong.
bool can_go_on_after(trc_status status);

class Elastic {
 public:
  // So often in a row without a save() of the state.
  static constexpr int max_failures = 100;

  explicit Elastic(Environment environment) : environment_(std::move(environment)) {}

  // Meets the others, in the generation of the environment, 0 there: in the first that has a place, or, when
  // the last world is over (`ended` says how), in the next one that has a place for this worker. A failure on
  // the way is tried again there. After a failure the state is put back to its snapshot. What comes back as a
  // failure is final: TRC_REMOVED, or no way on, with the words of what ended the last world.
  Outcome<World*> form(State& state, const std::optional<Failure>& ended);
  // The orderly end, together with all other ranks.
  Outcome<void> finish();

 private:
  Outcome<void> go_on(const Failure& ended);
  Outcome<void> take_place(const Failure& ended);

  Environment environment_;
  World::Owner world_;
  std::optional<rendezvous::Client> client_;  // with a place in the generation
  std::uint64_t saves_ = 0;
  int failures_ = 0;
};

}  // namespace trainrun::comm
