// One process that has imported what Python ranks need, and forks them (zygote.py; decision 0026): its start,
// what is said to it and by it, and its end. It may die at any time, which ends no rank.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/base/fd.h"
#include "launcher/io/child.h"
#include "launcher/io/loop.h"

namespace trainrun::agent {

std::string_view zygote_script();

class Zygote {
 public:
  struct Handlers {
    std::function<void(const std::vector<std::string>& fields)> said;
    // Once, with how it ended and its last words. Not called from within a call of this object's.
    std::function<void(const std::string& why)> ended;
  };
  // `script`: the folder with zygote.py under the name sitecustomize.py. Nothing: `error` says why.
  static std::unique_ptr<Zygote> start(io::Loop& loop, io::ChildRequest request, Handlers handlers,
                                       std::string& error);
  ~Zygote();
  Zygote(const Zygote&) = delete;
  Zygote& operator=(const Zygote&) = delete;

  [[nodiscard]] pid_t pid() const { return child_->pid(); }
  // One packet. False: it does not take it, as one that hangs or has died does not.
  bool send(const std::string& packet, const std::vector<int>& fds);
  void close();  // it is to go, and clears up what its imports have left
  void kill() { child_->end(); }
  void reap() { child_->reap(); }
  [[nodiscard]] std::string take_output();  // what it has printed since the last time; the end of it

 private:
  Zygote(io::Loop& loop, Handlers handlers);
  void listen();
  void hear();

  io::Loop& loop_;
  std::shared_ptr<Handlers> handlers_;
  struct Socket;
  std::unique_ptr<Socket> socket_;
  std::unique_ptr<io::Child> child_;
  std::string output_;
};

}  // namespace trainrun::agent
