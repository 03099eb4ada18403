#include "launcher/transport/openssh.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "launcher/transport/nonce.h"
#include "launcher/transport/openssh_arguments.h"
#include "launcher/transport/openssh_child.h"
#include "launcher/transport/ssh_words.h"

namespace trainrun::transport {

using Children = std::vector<std::unique_ptr<OpensshChild>>;

OpensshTransport::OpensshTransport(io::Loop& loop, SshOptions options, const AgentImage& image,
                                   std::vector<std::string> places)
    : options_(std::move(options)),
      image_(image),
      places_(std::move(places)),
      answers_(loop),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

OpensshTransport::~OpensshTransport() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  eventfd_write(wake_.get(), 1);
  if (thread_.joinable()) thread_.join();
}

void OpensshTransport::dial(const Host& host, Duration within, DialDone done) {
  auto answer = answers_.expect(std::move(done));
  if (auto good = check_names(host); !good) {
    answer(tl::unexpected(good.error()));
    return;
  }
  if (!thread_.joinable()) {
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::system_error& error) {
      answer(fail(Code::try_again, host.name + ": no thread can be started to reach it: " + error.what()));
      return;
    }
  }
  const std::lock_guard lock(mutex_);
  fresh_.push_back({host, std::chrono::steady_clock::now(), within, std::move(answer)});
  eventfd_write(wake_.get(), 1);
}

namespace {

// Starts, or answers with the error.
std::unique_ptr<OpensshChild> start(const Host& host, const SshOptions& options, const AgentImage& image,
                                    const std::vector<std::string>& places, Instant started, Duration within,
                                    const DialDone& answer) {
  auto nonce = fresh_nonce();
  auto line =
      nonce ? bootstrap_line(image, *nonce, options.agent_dir, places) : tl::unexpected(nonce.error());
  if (!line) {
    answer(tl::unexpected(line.error()));
    return nullptr;
  }
  auto child = OpensshChild::start(host, openssh_arguments(host, options, *line), image, std::move(*nonce),
                                   started, within, answer);
  if (!child) {
    answer(tl::unexpected(child.error()));
    return nullptr;
  }
  return std::move(*child);
}

// One wait for all, at the longest until `until`, and what it brought.
void turn(Children& children, int wake, Instant until) {
  std::vector<pollfd> fds{{wake, POLLIN, 0}};
  for (const auto& child : children) {
    const bool talks = child->talking();
    if (talks) until = std::min(until, child->deadline());
    fds.push_back({talks && child->link_events() != 0 ? child->link() : -1, child->link_events(), 0});
    fds.push_back({child->stderr_fd(), POLLIN, 0});
    fds.push_back({child->pidfd(), POLLIN, 0});
  }
  const auto left = std::chrono::ceil<milliseconds>(until - std::chrono::steady_clock::now()).count();
  if (poll(fds.data(), fds.size(), static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000))) < 0)
    return;
  if (fds[0].revents != 0) {
    eventfd_t ignored = 0;
    eventfd_read(wake, &ignored);
  }
  const auto now = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < children.size(); ++i) {
    auto& child = children[i];
    if (fds[3 * i + 2].revents != 0) child->hear_stderr();
    if (fds[3 * i + 1].revents != 0) child->talk();
    if (fds[3 * i + 3].revents != 0 && child->reap()) {
      child.reset();
    } else if (child->talking() && now >= child->deadline()) {
      child->late();
    }
  }
  std::erase(children, nullptr);
}

// A launcher that has closed its links lets them end by themselves; the rest is told to, then made to.
void end_all(Children& children, int wake) {
  for (const int number : {0, SIGTERM, SIGKILL}) {
    if (number != 0) {
      for (const auto& child : children) child->signal(number);
    }
    const auto until = std::chrono::steady_clock::now() + milliseconds(200);
    while (!children.empty() && std::chrono::steady_clock::now() < until) turn(children, wake, until);
  }
  children.clear();
}

}  // namespace

void OpensshTransport::run() {
  Children children;
  for (;;) {
    std::vector<Job> fresh;
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) break;
      fresh.swap(fresh_);
    }
    for (const auto& job : fresh) {
      auto child = start(job.host, options_, image_, places_, job.started, job.within, job.answer);
      if (child) children.push_back(std::move(child));
    }
    turn(children, wake_.get(), std::chrono::steady_clock::now() + std::chrono::hours(1));
  }
  end_all(children, wake_.get());
}

}  // namespace trainrun::transport
