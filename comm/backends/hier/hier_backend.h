// The backend of ranks on several hosts, as many on each: memory on a host, Gloo between hosts. A large
// reduction is split among the ranks of a host, each of which combines its part with the ranks that have its
// place on the other hosts; so each byte leaves a host once, over as many connections as there are ranks.
//
// Every operation begins with what the ranks of a host do in memory, where they find out whether they agree;
// then the first ranks of the hosts find out, for their hosts, and tell them. A small operation is over then:
// one message has left each host, and come to it, a step of their agreement. Operations that give something
// else to each rank then go over Gloo among all (`flat`).
#pragma once

#include <memory>

#include "comm/backends/backend.h"
#include "comm/backends/gloo/gloo_backend.h"
#include "comm/backends/hier/host_grid.h"
#include "comm/backends/shm/shm_backend.h"

namespace trainrun::comm {

// Memory for elements of any type, which stays for the next operation; not zeros. What it gave before is
// lost.
class Room {
 public:
  void* get(std::size_t elements) {
    if (elements > size_) {
      memory_ = std::make_unique_for_overwrite<double[]>(elements);
      size_ = elements;
    }
    return memory_.get();
  }

 private:
  std::unique_ptr<double[]> memory_;
  std::size_t size_ = 0;
};

class HierBackend final : public Backend {
 public:
  // `local` joins the grid's on_host(), `across` its across(), `flat` all, each in that order.
  HierBackend(HostGrid grid, std::unique_ptr<ShmBackend> local, std::unique_ptr<GlooBackend> across,
              std::unique_ptr<GlooBackend> flat);

  [[nodiscard]] GlooBackend& across() { return *across_; }
  [[nodiscard]] GlooBackend& flat() { return *flat_; }

  [[nodiscard]] const char* name() const override { return "hier"; }
  Performed perform(const Descriptor& what, const Transfer& data, Deadline deadline) override;
  void abort() override;

 private:
  class Operation;

  HostGrid grid_;
  std::unique_ptr<ShmBackend> local_;
  std::unique_ptr<GlooBackend> across_, flat_;
  Room wide_, share_;  // of a piece of a reduction
};

}  // namespace trainrun::comm
