// What libpmix calls, on its own thread: each call becomes a message to the agent, and returns.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "launcher/pmix/server.h"

namespace trainrun::pmix {
namespace {

Server* the_server = nullptr;  // libpmix hands no context to most of its calls

std::string text_of(const char* text) {
  return text == nullptr ? std::string() : std::string(text, ::strnlen(text, wire::pmix::longest_text));
}

}  // namespace

bool Server::is_ours(const abi::Proc& rank) const {
  return name_space_ == rank.name_space && (rank.rank < size_ || rank.rank == abi::every_rank);
}

std::uint32_t Server::remember(abi::GiveData give, void* context) {
  waiting_.emplace(++last_number_, Waiting{give, context});
  return last_number_;
}

abi::Status Server::reached(const abi::Proc& rank, wire::pmix::Stage stage) {
  const std::lock_guard lock(mutex_);
  if (!is_ours(rank)) return abi::bad_param;
  channel_.send(wire::pmix::Reached{generation_, Rank{rank.rank}, stage});
  return abi::success;
}

abi::Status Server::abort(const abi::Proc& rank, int code, const char* words) {
  const std::lock_guard lock(mutex_);
  if (!is_ours(rank)) return abi::bad_param;
  channel_.send(wire::pmix::AbortAsked{generation_, Rank{rank.rank}, code, text_of(words)});
  return abi::succeeded_already;
}

abi::Status Server::fence(const abi::Proc* members, std::size_t count, char* data, std::size_t size,
                          abi::GiveData give, void* context) {
  wire::pmix::FenceAsked question;
  if (data != nullptr) question.bytes.assign(data, size);
  std::free(data);  // it is ours
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < count; ++i) {
    if (!is_ours(members[i])) return abi::not_supported;
    if (members[i].rank == abi::every_rank) {
      question.group.clear();
      break;
    }
    question.group.push_back(Rank{members[i].rank});
  }
  std::sort(question.group.begin(), question.group.end());
  question.group.erase(std::unique(question.group.begin(), question.group.end()), question.group.end());
  if (question.group.size() == size_) question.group.clear();
  question.generation = generation_;
  question.number = remember(give, context);
  channel_.send(question);
  return abi::success;
}

abi::Status Server::modex(const abi::Proc& of, abi::GiveData give, void* context) {
  const std::lock_guard lock(mutex_);
  if (!is_ours(of) || of.rank == abi::every_rank) return abi::not_found;
  channel_.send(wire::pmix::ModexAsked{generation_, remember(give, context), Rank{of.rank}});
  return abi::success;
}

void Server::log(const abi::Proc& rank, const abi::Info* data, std::size_t count) {
  const std::lock_guard lock(mutex_);
  if (!is_ours(rank)) return;
  for (std::size_t i = 0; i < count; ++i) {
    const bool out = std::strcmp(data[i].key, "pmix.log.stdout") == 0;
    if ((!out && std::strcmp(data[i].key, "pmix.log.stderr") != 0) || data[i].value.type != abi::type_string)
      continue;
    channel_.send(wire::pmix::Logged{generation_, Rank{rank.rank},
                                     out ? wire::Output::out : wire::Output::err,
                                     text_of(data[i].value.data.string)});
  }
}

abi::Status Server::refuse(const abi::Proc* rank, wire::pmix::Service service) {
  const std::lock_guard lock(mutex_);
  if (rank != nullptr && is_ours(*rank))
    channel_.send(wire::pmix::Refused{generation_, Rank{rank->rank}, service});
  return abi::not_supported;
}

void Server::answer_later(abi::Done done, void* context) {
  if (done != nullptr) later_.run([done, context] { done(abi::success, context); });
}

void fill_module(abi::Module& module, Server& server) {
  using abi::Done, abi::Info, abi::Proc, abi::Status;
  the_server = &server;
  module = {};
  // Later releases call back only what was promised by the status: it is called where there is one.
  module.client_connected2 = [](const Proc* rank, void*, Info*, std::size_t, Done done,
                                void* context) -> Status {
    const auto status = the_server->reached(*rank, wire::pmix::Stage::connected);
    if (status == abi::success) the_server->answer_later(done, context);
    return status;
  };
  module.client_finalized = [](const Proc* rank, void*, Done, void*) -> Status {
    const auto status = the_server->reached(*rank, wire::pmix::Stage::finalized);
    return status == abi::success ? abi::succeeded_already : status;
  };
  module.abort = [](const Proc* rank, void*, int code, const char* words, Proc*, std::size_t, Done,
                    void*) -> Status { return the_server->abort(*rank, code, words); };
  module.fence = [](const Proc* members, std::size_t count, const Info*, std::size_t, char* data,
                    std::size_t size, abi::GiveData give, void* context) -> Status {
    return the_server->fence(members, count, data, size, give, context);
  };
  module.direct_modex = [](const Proc* of, const Info*, std::size_t, abi::GiveData give,
                           void* context) -> Status { return the_server->modex(*of, give, context); };
  module.publish = [](const Proc* rank, const Info*, std::size_t, Done, void*) -> Status {
    return the_server->refuse(rank, wire::pmix::Service::publish);
  };
  module.lookup = [](const Proc* rank, char**, const Info*, std::size_t, abi::Module::Unused,
                     void*) -> Status { return the_server->refuse(rank, wire::pmix::Service::lookup); };
  module.unpublish = [](const Proc* rank, char**, const Info*, std::size_t, Done, void*) -> Status {
    return the_server->refuse(rank, wire::pmix::Service::unpublish);
  };
  module.spawn = [](const Proc* rank, const Info*, std::size_t, const void*, std::size_t, abi::Module::Unused,
                    void*) -> Status { return the_server->refuse(rank, wire::pmix::Service::spawn); };
  module.register_events = [](Status*, std::size_t, const Info*, std::size_t, Done, void*) -> Status {
    return abi::succeeded_already;
  };
  module.deregister_events = [](Status*, std::size_t, Done, void*) -> Status {
    return abi::succeeded_already;
  };
  module.notify_event = [](Status, const Proc*, std::uint8_t, Info*, std::size_t, Done, void*) -> Status {
    return abi::succeeded_already;
  };
  // Files that a rank wants removed at its end are libpmix's own business, but for asking here first.
  module.job_control = [](const Proc*, const Proc*, std::size_t, const Info*, std::size_t,
                          abi::Module::Unused, void*) -> Status { return abi::not_supported; };
  module.log = [](const Proc* rank, const Info* data, std::size_t count, const Info*, std::size_t, Done done,
                  void* context) {
    the_server->log(*rank, data, count);
    the_server->answer_later(done, context);
  };
}

}  // namespace trainrun::pmix
