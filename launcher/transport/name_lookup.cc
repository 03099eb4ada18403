#include "launcher/transport/name_lookup.h"

#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "launcher/base/strings.h"
#include "launcher/transport/ssh_words.h"

namespace trainrun::transport {
namespace {

Answer ask_resolver(const std::string& name, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* list = nullptr;
  const int rc = getaddrinfo(name.c_str(), nullptr, &hints, &list);
  if (rc != 0) return {{}, rc == EAI_SYSTEM ? errno_text(errno) : gai_strerror(rc)};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, freeaddrinfo);
  Answer answer;
  for (const auto* each = list; each != nullptr && answer.addresses.size() < 8; each = each->ai_next) {
    Address address;
    if (each->ai_addrlen > sizeof address.bytes) continue;
    std::copy_n(reinterpret_cast<const char*>(each->ai_addr), each->ai_addrlen,
                reinterpret_cast<char*>(&address.bytes));
    address.size = each->ai_addrlen;
    address.family = each->ai_family;
    answer.addresses.push_back(address);
  }
  return answer;
}

// What a lookup's thread touches. Owned by both sides: when nobody waits any more, it goes with the thread.
struct Question {
  std::string name;
  Fd answered;
  std::mutex mutex;
  Answer answer;
};

// getaddrinfo cannot be called off, so it runs in threads that may outlive whoever asked. They serve one name
// after the other: a thread a host would cost more than the lookup of a name that /etc/hosts knows.
class Desk {
 public:
  // Never taken down: at the end of the process a thread may still hang in the resolver.
  static Desk& open() {
    static auto* const desk = new Desk;
    return *desk;
  }

  // Throws std::system_error when no thread can be had.
  void ask(std::shared_ptr<Question> question) {
    const std::lock_guard lock(mutex_);
    if (queue_.size() >= idle_) std::thread([this] { serve(); }).detach();
    queue_.push_back(std::move(question));
    asked_.notify_one();
  }

 private:
  [[noreturn]] void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      ++idle_;
      asked_.wait(lock, [this] { return !queue_.empty(); });
      --idle_;
      const auto question = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      auto answer = ask_resolver(question->name, AI_ADDRCONFIG);
      {
        const std::lock_guard its(question->mutex);
        question->answer = std::move(answer);
        eventfd_write(question->answered.get(), 1);
      }
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable asked_;
  std::deque<std::shared_ptr<Question>> queue_;  // nobody serves them yet
  std::size_t idle_ = 0;
};

}  // namespace

Result<Answer> look_up(const std::string& host, const std::string& name, const DialLimit& time_limit) {
  if (auto numeric = ask_resolver(name, AI_NUMERICHOST); numeric.failure.empty()) return numeric;
  const auto question = std::make_shared<Question>();
  question->name = name;
  question->answered = Fd(eventfd(0, EFD_CLOEXEC));
  if (!question->answered) return fail(Code::internal, "eventfd: " + errno_text(errno));
  try {
    Desk::open().ask(question);
  } catch (const std::system_error& error) {
    return fail(Code::try_again, host + ": no thread for the resolver: " + error.what());
  }
  const auto wake = time_limit.wait(question->answered.get(), POLLIN);
  if (wake != DialLimit::Wake::ready)
    return tl::unexpected(time_limit.error(wake, host, std::string(looking_up)));
  const std::lock_guard lock(question->mutex);
  return std::move(question->answer);
}

}  // namespace trainrun::transport
