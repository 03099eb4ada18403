// The connections to the rendezvous server on which groups are being made or closed. Such a wait is for keys
// of other ranks, and the server cannot know that the rank that should set one has left the world; the
// watcher does. Thread-safe.
#pragma once

#include <mutex>
#include <set>

#include "rendezvous/client.h"

namespace trainrun::comm {

class Errands {
 public:
  // While this lives its client is interrupted with the others. `errands` and `client` outlive it.
  class Running {
   public:
    Running(Errands& errands, rendezvous::Client& client);
    ~Running();
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    Errands& errands_;
    rendezvous::Client& client_;
  };

  // All that run, and each that comes later.
  void interrupt();

 private:
  std::mutex mutex_;
  std::set<rendezvous::Client*> running_;
  bool interrupted_ = false;
};

}  // namespace trainrun::comm
