#include "launcher/transport/openssh.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <iterator>
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
std::unique_ptr<OpensshChild> start(DialJob job, const SshOptions& options, const AgentImage& image,
                                    const std::vector<std::string>& places) {
  const auto answer = job.answer;
  auto nonce = fresh_nonce();
  const auto how = job.attempts == 0 ? Bootstrap::quick : Bootstrap::careful;
  auto line =
      nonce ? bootstrap_line(image, *nonce, options.agent_dir, places, how) : tl::unexpected(nonce.error());
  if (!line) {
    answer(tl::unexpected(line.error()));
    return nullptr;
  }
  const auto words = openssh_arguments(job.host, options, *line);
  auto child = OpensshChild::start(std::move(job), words, image, std::move(*nonce), how);
  if (!child) {
    answer(tl::unexpected(child.error()));
    return nullptr;
  }
  return std::move(*child);
}

// One wait for all, at the longest until `until`, and what it brought; `again`: jobs to be started once more.
void turn(Children& children, int wake, Instant until, std::vector<DialJob>& again) {
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
      if (child->wants_another()) again.push_back(std::move(child->job()));
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
    std::vector<DialJob> ignored;
    while (!children.empty() && std::chrono::steady_clock::now() < until)
      turn(children, wake, until, ignored);
  }
  children.clear();
}

}  // namespace

void OpensshTransport::run() {
  Children children;
  std::vector<DialJob> jobs;
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) break;
      std::move(fresh_.begin(), fresh_.end(), std::back_inserter(jobs));
      fresh_.clear();
    }
    const auto now = std::chrono::steady_clock::now();
    auto next = now + std::chrono::hours(1);
    std::vector<DialJob> later;
    for (auto& job : jobs) {
      if (job.not_before > now) {
        next = std::min(next, job.not_before);
        later.push_back(std::move(job));
      } else if (auto child = start(std::move(job), options_, image_, places_)) {
        children.push_back(std::move(child));
      }
    }
    jobs = std::move(later);
    turn(children, wake_.get(), next, jobs);
  }
  end_all(children, wake_.get());
}

}  // namespace trainrun::transport
