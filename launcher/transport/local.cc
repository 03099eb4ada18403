#include "launcher/transport/local.h"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "launcher/agent/agent_main.h"
#include "launcher/transport/local_program.h"

namespace trainrun::transport {
namespace {

// The agents' watchers, which are our children; of the process, as those are.
std::vector<int>& watchers() {
  static std::vector<int> pids;
  return pids;
}

// Nobody waits for a watcher, which goes when its agent has. Those that have gone are reaped when the next is
// started, so that a job which dials its own host again and again keeps one zombie at most.
Result<Dialled> start_with(const std::function<Result<int>(Fd)>& start) {
  await_local_agents(Duration::zero());
  auto ends = make_socket_pair();
  if (!ends) return tl::unexpected(ends.error());
  const auto pid = start(std::move(ends->second));
  if (!pid) return tl::unexpected(pid.error());
  watchers().push_back(*pid);
  return Dialled{std::move(ends->first), {}};
}

Result<Dialled> fork_one() { return start_with(agent::fork_agent); }
Result<Dialled> start_one() { return has_one_thread() ? fork_one() : start_with(execute_agent); }

// Of the process, as a fork is.
std::optional<Result<Dialled>>& forked_ahead() {
  static std::optional<Result<Dialled>> one;
  return one;
}

class LocalTransport final : public Transport {
 public:
  explicit LocalTransport(io::Loop& loop) : loop_(loop) {}

  void dial(const Host&, Duration, DialDone done) override {
    auto ahead = std::exchange(forked_ahead(), std::nullopt);
    auto dialled = ahead ? std::move(*ahead) : start_one();
    loop_.post([alive = std::weak_ptr(alive_), done = std::move(done),
                result = std::make_shared<Result<Dialled>>(std::move(dialled))] {
      if (alive.lock()) done(std::move(*result));
    });
  }

 private:
  io::Loop& loop_;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace

void fork_local_agent_ahead() { forked_ahead() = fork_one(); }

void await_local_agents(Duration limit) {
  using std::chrono::steady_clock;
  const auto due = steady_clock::now() + limit;
  std::erase_if(watchers(), [due](int pid) {
    if (::waitpid(pid, nullptr, WNOHANG) != 0) return true;
    const auto left = std::chrono::ceil<milliseconds>(due - steady_clock::now()).count();
    if (left <= 0) return false;
    const Fd handle(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0U)));
    pollfd end{handle.get(), POLLIN, 0};
    if (handle) ::poll(&end, 1, static_cast<int>(left));
    return ::waitpid(pid, nullptr, WNOHANG) != 0;
  });
}

std::unique_ptr<Transport> make_local_transport(io::Loop& loop) {
  return std::make_unique<LocalTransport>(loop);
}

}  // namespace trainrun::transport
