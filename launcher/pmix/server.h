// The server that libpmix becomes in this process. It decides nothing: what ranks ask goes to the agent, and
// what the agent answers goes to libpmix.
//
// libpmix calls us on a thread of its own, which must never wait for anything; it may be called from any.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "launcher/pmix/abi.h"
#include "launcher/pmix/channel.h"
#include "launcher/pmix/later.h"
#include "launcher/pmix/library.h"
#include "launcher/wire/pmix_messages.h"

namespace trainrun::pmix {

class Server {
 public:
  explicit Server(Channel& channel);

  void open(const wire::pmix::Open& order);
  void enter(const wire::pmix::Register& order);
  void reply(wire::pmix::Reply answer);
  void ask(const wire::pmix::AskModex& question);
  void tell_of(const wire::pmix::RankDied& death);
  // The agent is gone, or wants us to go: what ranks have left in files is removed, as they asked for.
  void leave();

  // What libpmix calls; in server_calls.cc. A rank of ours has done something, or asks.
  abi::Status reached(const abi::Proc& rank, wire::pmix::Stage stage);
  abi::Status abort(const abi::Proc& rank, int code, const char* words);
  abi::Status fence(const abi::Proc* members, std::size_t count, char* data, std::size_t size,
                    abi::GiveData give, void* context);
  abi::Status modex(const abi::Proc& of, abi::GiveData give, void* context);
  void log(const abi::Proc& rank, const abi::Info* data, std::size_t count);
  abi::Status refuse(const abi::Proc* rank, wire::pmix::Service service);
  void answer_later(abi::Done done, void* context);

 private:
  struct Waiting {
    abi::GiveData give;
    void* context;
  };
  std::uint32_t remember(abi::GiveData give, void* context);
  [[nodiscard]] bool is_ours(const abi::Proc& rank) const;
  std::string register_world(const wire::pmix::Register& order);
  [[nodiscard]] std::string failed(const char* what, abi::Status status) const;

  Channel& channel_;
  Later later_;
  Library library_;
  abi::Module module_{};
  bool open_ = false;
  mutable std::mutex mutex_;  // of what follows
  std::string name_space_;
  Generation generation_{};
  std::uint32_t size_ = 0;
  std::map<std::uint32_t, Waiting> waiting_;
  std::uint32_t last_number_ = 0;
};

// The table of functions that libpmix gets; there is one server a process.
void fill_module(abi::Module& module, Server& server);

}  // namespace trainrun::pmix
