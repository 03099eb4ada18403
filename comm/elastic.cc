#include "comm/elastic.h"

#include <fmt/format.h>

#include <utility>

#include "launcher/base/strings.h"
#include "rendezvous/job_key.h"

namespace trainrun::comm {
namespace {

// The server has answered this process before: one that cannot be reached now is gone.
constexpr Duration reconnect_wait = seconds(5);
constexpr Duration as_long_as_the_job = std::chrono::hours(24 * 365);

tl::unexpected<Failure> no_way_on(Failure ended, const std::string& why) {
  ended.message =
      fmt::format("{}; and this process cannot go on in another generation: {}", ended.message, why);
  return tl::unexpected(std::move(ended));
}

}  // namespace

bool can_go_on_after(trc_status status) {
  switch (status) {
    case TRC_PEER_LOST:
    case TRC_ABORTED:
    case TRC_TIMEOUT:
    case TRC_TRANSPORT:
    case TRC_HOSTS_UPDATED:
      return true;
    default:
      return false;
  }
}

Outcome<World*> Elastic::form(State& state, const std::optional<Failure>& ended) {
  auto last = ended;
  if (world_ && !last) return fail(TRC_INVALID, "the last world has not ended");
  if (environment_.generation.value == 0)
    if (auto placed = take_place({TRC_TRANSPORT, "the rendezvous cannot be reached"}); !placed)
      return tl::unexpected(placed.error());
  for (;;) {
    if (last) {
      if (!can_go_on_after(last->status)) return tl::unexpected(*last);
      if (std::exchange(saves_, state.saves()) != state.saves()) failures_ = 0;
      const bool failed = last->status != TRC_HOSTS_UPDATED;
      if (failed && ++failures_ > max_failures)
        return no_way_on(*last,
                         fmt::format("it has failed {} times in a row without a commit", max_failures));
      if (failed) state.restore();
      if (auto placed = go_on(*last); !placed) return tl::unexpected(placed.error());
    }
    auto made = World::init(environment_, {true, std::exchange(client_, std::nullopt)});
    if (made) {
      world_ = std::move(*made);
      return world_.get();
    }
    last = made.error();
  }
}

Outcome<void> Elastic::go_on(const Failure& ended) {
  const bool planned = ended.status == TRC_HOSTS_UPDATED;
  // A failure of the program's own making, which the others know nothing of and would wait in vain.
  if (world_ && !planned) world_->give_up();
  if (world_) client_ = world_->release(planned);
  world_.reset();
  return take_place(ended);
}

// In the next generation, or in the first that a newcomer is in, which has done nothing so far.
Outcome<void> Elastic::take_place(const Failure& ended) {
  if (environment_.rendezvous.empty() || environment_.worker.value == 0)
    return no_way_on(ended, "it was not started by a launcher that numbers its workers");
  // The members let a newcomer in when they have got to a commit, which may take hours; the launcher ends one
  // that is not wanted any more.
  const auto patience =
      environment_.generation.value == 0 ? as_long_as_the_job : environment_.elastic_timeout;
  const auto until = std::chrono::steady_clock::now() + patience;
  const auto ask = [&] {
    for (;;) {
      auto placed = client_->next(environment_.worker, until - std::chrono::steady_clock::now());
      // The server cuts long waits.
      if (placed || placed.error().kind != rendezvous::FailureKind::timeout ||
          std::chrono::steady_clock::now() >= until)
        return placed;
    }
  };
  auto placed = client_ ? ask() : tl::unexpected(rendezvous::Failure{});
  if (!client_ || (!placed && placed.error().kind == rendezvous::FailureKind::disconnected)) {
    const auto key = rendezvous::read_key_file(environment_.key_file);
    if (!key) return no_way_on(ended, key.error().message);
    auto connected =
        rendezvous::Client::connect(environment_.rendezvous, *key, environment_.generation, reconnect_wait);
    if (!connected) return no_way_on(ended, connected.error().message);
    client_.emplace(std::move(*connected));
    placed = ask();
  }
  if (!placed) {
    client_.reset();
    if (placed.error().kind == rendezvous::FailureKind::removed)
      return tl::unexpected(failure_of(placed.error()));
    return no_way_on(ended, placed.error().message);
  }
  environment_.generation = Generation{placed->generation};
  environment_.rank = Rank{placed->rank};
  environment_.size.reset();  // that of the first world
  return {};
}

Outcome<void> Elastic::finish() {
  if (!world_) return fail(TRC_INVALID, "there is no world to finish");
  return world_->finalize(world_->op_timeout());
}

}  // namespace trainrun::comm
