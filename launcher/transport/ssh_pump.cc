#include "launcher/transport/ssh_pump.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

namespace trainrun::transport {

namespace {
constexpr std::uint64_t wake_key = 0;
constexpr auto linger = milliseconds(300);
}  // namespace

Result<Dialled> SshPump::adopt(SshDialled dialled) {
  auto pair = make_socket_pair();
  if (!pair) {
    pair.error().message.insert(0, dialled.session->host + ": ");
    return tl::unexpected(std::move(pair.error()));
  }
  auto words = std::make_shared<LastWords>();
  words->add(dialled.last_words);
  auto how = dialled.session->remark.empty() ? std::string()
                                             : dialled.session->host + ": " + dialled.session->remark;
  auto line = std::make_unique<SshLine>(std::move(dialled.session), std::move(dialled.first_bytes),
                                        std::move(pair->second), words);
  const std::lock_guard lock(mutex_);
  if (stopping_) return fail(Code::lost, "the transport is closing");
  if (!thread_.joinable()) {
    epoll_ = Fd(epoll_create1(EPOLL_CLOEXEC));
    wake_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = wake_key;
    if (!epoll_ || !wake_ || epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0) {
      return fail(Code::internal, "epoll: " + errno_text(errno));
    }
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::system_error& error) {
      return fail(Code::try_again, std::string("no thread for the ssh sessions: ") + error.what());
    }
  }
  fresh_.push_back(std::move(line));
  eventfd_write(wake_.get(), 1);
  return Dialled{std::move(pair->first), std::move(dialled.noise), [words] { return words->text(); },
                 std::move(how)};
}

void SshPump::close() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (wake_) eventfd_write(wake_.get(), 1);
  }
  if (thread_.joinable()) thread_.join();
}

void SshPump::run() {
  for (;;) {
    turn(again_.empty() ? -1 : 0);
    std::vector<std::unique_ptr<SshLine>> fresh;
    bool stopping = false;
    {
      const std::lock_guard lock(mutex_);
      fresh.swap(fresh_);
      stopping = stopping_;
    }
    for (auto& line : fresh) {
      const auto id = next_id_++;
      lines_[id].line = std::move(line);
      move(id);
    }
    if (stopping) break;
  }
  const auto deadline = std::chrono::steady_clock::now() + linger;
  const auto unflushed = [this] {
    return std::any_of(lines_.begin(), lines_.end(),
                       [](const auto& each) { return !each.second.line->flushed(); });
  };
  while (unflushed() && std::chrono::steady_clock::now() < deadline) turn(10);
  lines_.clear();
}

void SshPump::turn(int timeout_ms) {
  std::array<epoll_event, 256> events{};
  const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout_ms);
  std::vector<std::uint64_t> ready;
  ready.swap(again_);
  for (int i = 0; i < count; ++i) {
    const auto& event = events[static_cast<std::size_t>(i)];
    if (event.data.u64 == wake_key) {
      eventfd_t ignored = 0;
      eventfd_read(wake_.get(), &ignored);
      continue;
    }
    const auto id = event.data.u64 / 2;
    const bool is_link = event.data.u64 % 2 == 1;
    const auto found = lines_.find(id);
    if (found == lines_.end()) continue;
    if (is_link && (event.events & (EPOLLHUP | EPOLLERR)) != 0) found->second.line->link_hung_up();
    ready.push_back(id);
  }
  std::sort(ready.begin(), ready.end());
  ready.erase(std::unique(ready.begin(), ready.end()), ready.end());
  for (const auto id : ready) move(id);
}

void SshPump::move(std::uint64_t id) {
  const auto found = lines_.find(id);
  if (found == lines_.end()) return;
  if (found->second.line->move()) again_.push_back(id);
  if (found->second.line->finished()) {
    lines_.erase(found);  // closes both fds, and epoll forgets them with that
  } else {
    watch(id, found->second);
  }
}

void SshPump::watch(std::uint64_t id, Watched& watched) {
  const auto& line = *watched.line;
  const int session_events = line.session_events();
  tell(line.socket(), id * 2, session_events == 0 ? -1 : session_events, watched.session_events);
  const int link_events = line.link_events();
  // An fd whose other end is closed is always ready: without a wish it must go, or the thread spins.
  tell(line.link(), id * 2 + 1, link_events == 0 && line.link_is_hung_up() ? -1 : link_events,
       watched.link_events);
}

void SshPump::tell(int fd, std::uint64_t key, int wanted, int& told) const {
  if (wanted == told) return;
  epoll_event event{};
  event.events =
      wanted < 0 ? 0 : static_cast<std::uint32_t>(wanted);  // POLLIN and EPOLLIN are the same numbers
  event.data.u64 = key;
  epoll_ctl(epoll_.get(), wanted < 0 ? EPOLL_CTL_DEL : told < 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &event);
  told = wanted;
}

}  // namespace trainrun::transport
