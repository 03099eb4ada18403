#include "launcher/transport/ssh_pool.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <random>
#include <system_error>
#include <thread>
#include <utility>

#include "launcher/transport/ssh_pump.h"
#include "launcher/transport/ssh_session.h"
#include "launcher/transport/ssh_words.h"

namespace trainrun::transport {

namespace {

constexpr std::size_t threads_at_first = 16;
constexpr std::size_t threads_at_most = 1024;
constexpr auto growth_period = milliseconds(200);
constexpr int attempts = 8;  // some 10 s in all, when an sshd keeps refusing half-open connections

struct Job {
  Host host;
  Instant started;
  Duration within{};
  DialDone done;
};

// Waits longer from one attempt to the next, by chance: the others that were refused come back too.
Duration pause_after(int attempt) {
  thread_local std::minstd_rand random(std::random_device{}());
  const int base = 100 << std::min(attempt, 4);
  return milliseconds(base / 2 + static_cast<int>(random() % static_cast<unsigned>(base)));
}

}  // namespace

// Shared with the dial threads, since one that sits in a call of libssh without an end may outlive the
// transport.
struct SshTransport::State : std::enable_shared_from_this<State> {
  explicit State(SshPlan with) : plan(std::move(with)) {}

  void work();
  Result<Dialled> reach(const Job& job);
  bool start_thread();  // with the mutex held

  const SshPlan plan;
  Fd cancel{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  SshPump pump;

  std::mutex mutex;  // over all that follows
  std::condition_variable thread_ended;
  std::deque<Job> queue;
  std::size_t threads = 0;
  std::uint64_t taken = 0;
};

SshTransport::SshTransport(io::Loop& loop, const SshOptions& options, const AgentImage& image,
                           std::vector<std::string> places)
    : state_(std::make_shared<State>(SshPlan{options, &image, std::move(places)})),
      answers_(loop),
      growth_(loop) {}

SshTransport::~SshTransport() {
  auto& state = *state_;
  std::unique_lock lock(state.mutex);
  state.queue.clear();
  eventfd_write(state.cancel.get(), 1);
  state.thread_ended.wait_for(lock, milliseconds(600), [&] { return state.threads == 0; });
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
    if (state.threads < threads_at_first && !state.start_thread() && state.threads == 0) {
      state.queue.pop_back();
      answer(fail(Code::try_again, host.name + ": no thread can be started to reach it"));
      return;
    }
  }
  if (!growth_.armed()) watch_queue();
}

void SshTransport::watch_queue() {
  auto& state = *state_;
  const std::lock_guard lock(state.mutex);
  if (state.queue.empty()) return;
  if (state.taken == taken_before_) {
    const auto wanted = std::min({state.queue.size(), std::max<std::size_t>(state.threads, 1),
                                  threads_at_most - std::min(threads_at_most, state.threads)});
    for (std::size_t i = 0; i < wanted && state.start_thread(); ++i) {
    }
  }
  taken_before_ = state.taken;
  growth_.arm(io::Loop::now() + growth_period, [this] { watch_queue(); });
}

bool SshTransport::State::start_thread() {
  try {
    std::thread([state = shared_from_this()] { state->work(); }).detach();
  } catch (const std::system_error&) {
    return false;
  }
  ++threads;
  return true;
}

void SshTransport::State::work() {
  for (;;) {
    Job job;
    {
      const std::lock_guard lock(mutex);
      if (queue.empty()) {
        --threads;
        thread_ended.notify_all();
        return;
      }
      job = std::move(queue.front());
      queue.pop_front();
      ++taken;
    }
    job.done(reach(job));
  }
}

Result<Dialled> SshTransport::State::reach(const Job& job) {
  const Patience patience(job.started, job.within, cancel.get());
  for (int attempt = 0;; ++attempt) {
    auto dialled = bring_up(plan, job.host, patience);
    if (dialled) return pump.adopt(std::move(*dialled));
    if (dialled.error().code != Code::try_again) return tl::unexpected(std::move(dialled.error()));
    if (attempt + 1 == attempts || patience.wait(-1, 0, pause_after(attempt)) != Patience::Wake::ready) {
      dialled.error().code = Code::unreachable;
      dialled.error().message += fmt::format(" ({} attempts)", attempt + 1);
      return tl::unexpected(std::move(dialled.error()));
    }
  }
}

}  // namespace trainrun::transport
