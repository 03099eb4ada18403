// How an agent ends: asked to, or because it must.
#include <utility>

#include "launcher/agent/agent.h"
#include "launcher/base/strings.h"

namespace trainrun::agent {
namespace {

constexpr Duration goodbye = seconds(2);

}  // namespace

void Agent::end_by_signal(int number) { give_up("got " + signal_name(number)); }

// The launcher hears why, and then nothing more: what we do to the ranks is not their own end.
void Agent::give_up(const std::string& why) {
  link_.send(wire::Note{"the agent " + why + " and ends its ranks"});
  link_.flush_and_close(milliseconds(200));
  lose_link();
}

void Agent::lose_link() {
  if (mode_ == Mode::lost) return;
  const bool is_ending = mode_ == Mode::stopping;
  mode_ = Mode::lost;
  exit_code_ = 1;
  if (!is_ending) end_job();
}

void Agent::end_job() {
  silence_.disarm();
  leave_by_.disarm();
  job_.end([this] { leave(); });
}

void Agent::leave() {
  if (mode_ == Mode::stopping) {
    link_.send(job_.what_was_left());
    link_.flush_and_close(goodbye);
  }
  loop_.stop();
}

}  // namespace trainrun::agent
