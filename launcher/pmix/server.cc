#include "launcher/pmix/server.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "launcher/pmix/keys.h"

namespace trainrun::pmix {
namespace {

constexpr std::chrono::milliseconds farewell{300};

// Waits for a callback: for the thread that reads, never for libpmix's.
class Completion {
 public:
  static void done(abi::Status status, void* context) {
    auto& self = *static_cast<Completion*>(context);
    const std::lock_guard lock(self.mutex_);
    self.status_ = status;
    self.known_ = true;
    self.condition_.notify_all();
  }
  bool wait_for(std::chrono::milliseconds most) {
    std::unique_lock lock(mutex_);
    return condition_.wait_for(lock, most, [this] { return known_; });
  }
  // Of a call that was given this as its context.
  abi::Status wait(abi::Status returned) {
    if (returned == abi::succeeded_already) return abi::success;
    if (returned != abi::success) return returned;
    std::unique_lock lock(mutex_);
    condition_.wait(lock, [this] { return known_; });
    return status_ == abi::succeeded_already ? abi::success : status_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  bool known_ = false;
  abi::Status status_ = abi::error;
};

void ignore(abi::Status, void*) {}

abi::Proc proc(const std::string& name_space, std::uint32_t rank) {
  abi::Proc out{};
  std::strncpy(out.name_space, name_space.c_str(), abi::longest_name_space);
  out.rank = rank;
  return out;
}

struct Question {
  Channel& channel;
  std::uint32_t number;
};

void answered(abi::Status status, char* data, std::size_t size, void* context) {
  const std::unique_ptr<Question> question(static_cast<Question*>(context));
  question->channel.send(
      wire::pmix::Modex{question->number, status, data == nullptr ? std::string() : std::string(data, size)});
}

}  // namespace

Server::Server(Channel& channel) : channel_(channel) {}

std::string Server::failed(const char* what, abi::Status status) const {
  const char* const words = library_.error_string(status);
  return std::string(what) + ": " + (words != nullptr ? words : std::to_string(status));
}

void Server::open(const wire::pmix::Open& order) {
  std::string error;
  if (!library_.load(order.libraries, error)) return channel_.send(wire::pmix::Opened{{}, error});
  fill_module(module_, *this);
  Keys keys;
  keys.text("pmix.srvr.tmpdir", order.directory);
  keys.text("pmix.sys.tmpdir", order.directory);
  keys.text("pmix.srv.nspace", "trainrun-" + order.job_id);
  keys.rank("pmix.srv.rank", order.host.value);
  keys.text("pmix.hname", order.host_name);
  const auto status = library_.server_init(&module_, keys.items(), keys.size());
  if (status != abi::success)
    return channel_.send(wire::pmix::Opened{{}, library_.path + ": " + failed("PMIx_server_init", status)});
  open_ = true;
  channel_.send(wire::pmix::Opened{library_.path, library_.version()});
}

void Server::enter(const wire::pmix::Register& order) {
  wire::pmix::Registered answer;
  answer.generation = order.world.generation;
  answer.error = register_world(order);
  const auto locals = local_ranks(order.world);
  if (answer.error.empty() && !locals.empty()) {
    char** words = nullptr;
    const auto first = proc(order.name_space, locals.front());
    if (const auto status = library_.setup_fork(&first, &words); status != abi::success)
      answer.error = failed("PMIx_server_setup_fork", status);
    for (char** word = words; word != nullptr && *word != nullptr; ++word) {
      const std::string text(*word);
      const auto equals = text.find('=');
      const auto name = text.substr(0, equals);
      if (equals != std::string::npos && name != "PMIX_RANK")
        answer.env.emplace_back(name, text.substr(equals + 1));
    }
  }
  channel_.send(answer);
}

std::string Server::register_world(const wire::pmix::Register& order) {
  if (!open_) return "there is no server";
  std::string before;
  {
    const std::lock_guard lock(mutex_);
    before = std::exchange(name_space_, order.name_space);
    generation_ = order.world.generation;
    size_ = static_cast<std::uint32_t>(order.world.host_of_rank.size());
    waiting_.clear();  // their ranks are dead
  }
  if (!before.empty()) library_.deregister_name_space(before.c_str(), ignore, nullptr);
  Keys keys;
  fill_world(keys, order, library_);
  const auto locals = local_ranks(order.world);
  Completion registered;
  auto status =
      registered.wait(library_.register_name_space(order.name_space.c_str(), static_cast<int>(locals.size()),
                                                   keys.items(), keys.size(), Completion::done, &registered));
  if (status != abi::success) return failed("PMIx_server_register_nspace", status);
  for (const auto rank : locals) {
    const auto client = proc(order.name_space, rank);
    Completion known;
    status = known.wait(
        library_.register_client(&client, ::geteuid(), ::getegid(), nullptr, Completion::done, &known));
    if (status != abi::success) return failed("PMIx_server_register_client", status);
  }
  return {};
}

void Server::reply(wire::pmix::Reply answer) {
  Waiting waiting{};
  {
    const std::lock_guard lock(mutex_);
    const auto it = waiting_.find(answer.number);
    if (it == waiting_.end()) return;
    waiting = it->second;
    waiting_.erase(it);
  }
  auto* const bytes = new std::string;
  for (const auto& part : answer.parts) *bytes += part;
  waiting.give(
      answer.status, bytes->data(), bytes->size(), waiting.context,
      [](void* context) { delete static_cast<std::string*>(context); }, bytes);
}

void Server::leave() {
  std::string name_space;
  {
    const std::lock_guard lock(mutex_);
    name_space = name_space_;
  }
  if (name_space.empty()) return;
  // What ranks that were killed have left in memory libpmix removes when it notices that their connections
  // are closed. All are by now; two turns of its loop, which asks for names that it does not know take, and
  // it has noticed.
  for (const char* const name : {"trainrun.turn", "trainrun.turn", name_space.c_str()}) {
    // It outlives this call: the process ends next, whether or not it was heard of.
    auto* const done = new Completion;
    library_.deregister_name_space(name, Completion::done, done);
    done->wait_for(farewell);
  }
}

void Server::ask(const wire::pmix::AskModex& question) {
  std::string name_space;
  {
    const std::lock_guard lock(mutex_);
    name_space = name_space_;
  }
  const auto of = proc(name_space, question.rank.value);
  auto* const context = new Question{channel_, question.number};
  const auto status = open_ ? library_.modex_request(&of, answered, context) : abi::error;
  if (status != abi::success) answered(status, nullptr, 0, context);
}

void Server::tell_of(const wire::pmix::RankDied& death) {
  if (!open_) return;
  struct Event {
    abi::Proc rank;
    Keys keys;
  };
  auto* const event = new Event{};  // for as long as libpmix needs it
  {
    const std::lock_guard lock(mutex_);
    event->rank = proc(name_space_, death.rank.value);
  }
  event->keys.proc("pmix.evproc", event->rank);
  const auto status = library_.notify_event(
      abi::ended_without_finalize, &event->rank, abi::range_local, event->keys.items(), event->keys.size(),
      [](abi::Status, void* context) { delete static_cast<Event*>(context); }, event);
  if (status != abi::success) delete event;  // told already, or never
}

}  // namespace trainrun::pmix
