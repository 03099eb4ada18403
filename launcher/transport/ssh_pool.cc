#include "launcher/transport/ssh_pool.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <list>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "launcher/transport/dial_job.h"
#include "launcher/transport/ssh_pump.h"
#include "launcher/transport/ssh_session.h"
#include "launcher/transport/ssh_words.h"

namespace trainrun::transport {

namespace {

constexpr std::size_t threads_at_first = 16;
constexpr std::size_t threads_at_most = 1024;
constexpr auto growth_period = milliseconds(200);

}  // namespace

// Shared with the dial threads, since one that sits in a call of libssh without an end may outlive the
// transport.
struct SshTransport::State : std::enable_shared_from_this<State> {
  explicit State(SshPlan with) : plan(std::move(with)) {}

  void work(std::list<std::thread>::iterator self);
  Result<Dialled> reach(const DialJob& job);
  bool start_thread();  // this and the next with the mutex held
  void join_ended();

  const SshPlan plan;
  Fd cancel{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  SshPump pump;

  std::mutex mutex;  // over all that follows
  std::condition_variable thread_ended;
  std::deque<DialJob> queue;
  std::list<std::thread> threads;  // at work
  std::list<std::thread> ended;    // have nothing more to do but to be joined
  std::uint64_t taken = 0;         // how many hosts were taken out of the queue
};

SshTransport::SshTransport(io::Loop& loop, const SshOptions& options, const AgentImage& image,
                           std::vector<std::string> places, bool log)
    : state_(std::make_shared<State>(SshPlan{options, &image, std::move(places), log})),
      answers_(loop),
      growth_(loop) {}

SshTransport::~SshTransport() {
  auto& state = *state_;
  std::unique_lock lock(state.mutex);
  state.queue.clear();
  eventfd_write(state.cancel.get(), 1);
  state.thread_ended.wait_for(lock, milliseconds(600), [&] { return state.threads.empty(); });
  for (auto& stuck : state.threads) stuck.detach();
  state.join_ended();
  lock.unlock();
  state.pump.close();
}

void SshTransport::dial(const Host& host, Duration within, DialDone done) {
  auto& state = *state_;
  auto answer = answers_.expect(std::move(done));
  if (auto good = check_names(host); !good) {
    answer(tl::unexpected(good.error()));
    return;
  }
  {
    const std::lock_guard lock(state.mutex);
    state.queue.push_back({host, std::chrono::steady_clock::now(), within, answer});
    if (state.threads.size() < threads_at_first && !state.start_thread() && state.threads.empty()) {
      state.queue.pop_back();
      answer(fail(Code::try_again, host.name + ": no thread can be started to reach it"));
      return;
    }
  }
  if (growth_.armed()) return;
  taken_before_ = ~std::uint64_t{0};  // a first period must pass before a thread can be missed
  watch_queue();
}

void SshTransport::watch_queue() {
  auto& state = *state_;
  const std::lock_guard lock(state.mutex);
  if (state.queue.empty()) return;
  if (state.taken == taken_before_) {
    const auto wanted = std::min({state.queue.size(), std::max<std::size_t>(state.threads.size(), 1),
                                  threads_at_most - std::min(threads_at_most, state.threads.size())});
    for (std::size_t i = 0; i < wanted && state.start_thread(); ++i) {
    }
  }
  taken_before_ = state.taken;
  growth_.arm(io::Loop::now() + growth_period, [this] { watch_queue(); });
}

bool SshTransport::State::start_thread() {
  join_ended();
  const auto self = threads.emplace(threads.end());
  try {
    *self = std::thread([state = shared_from_this(), self] { state->work(self); });
  } catch (const std::system_error&) {
    threads.erase(self);
    return false;
  }
  return true;
}

void SshTransport::State::join_ended() {
  for (auto& thread : ended) thread.join();
  ended.clear();
}

void SshTransport::State::work(std::list<std::thread>::iterator self) {
  for (;;) {
    DialJob job;
    {
      const std::lock_guard lock(mutex);
      if (queue.empty()) {
        ended.splice(ended.end(), threads, self);
        thread_ended.notify_all();
        return;
      }
      job = std::move(queue.front());
      queue.pop_front();
      ++taken;
    }
    job.answer(reach(job));
  }
}

Result<Dialled> SshTransport::State::reach(const DialJob& job) {
  const DialLimit time_limit(job.started, job.within, cancel.get());
  for (int attempts = 1;; ++attempts) {
    auto dialled =
        bring_up(plan, job.host, attempts == 1 ? Bootstrap::quick : Bootstrap::careful, time_limit);
    if (dialled) return pump.adopt(std::move(*dialled));
    if (dialled.error().code != Code::try_again) return tl::unexpected(std::move(dialled.error()));
    if (attempts == dial_attempts ||
        time_limit.wait(-1, 0, pause_after(attempts)) != DialLimit::Wake::ready) {
      return tl::unexpected(gave_up(std::move(dialled.error()), attempts));
    }
  }
}

}  // namespace trainrun::transport
