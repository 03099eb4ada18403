// What of its machine each rank of a world has for itself. Hosts that are one machine under two names
// (--oversubscribe, --transport local, Horovod's lists) divide it: no core and no GPU is given twice.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/base/error.h"
#include "launcher/base/id.h"
#include "launcher/core/job_spec.h"
#include "launcher/core/placement.h"
#include "launcher/wire/facts.h"

namespace trainrun::core {

struct Share {
  std::uint32_t slot = 0, slots = 1;  // which of the slots among which the machine is divided
  std::vector<std::uint32_t> cpus{};  // empty: not bound
  std::string gpus{};                 // as CUDA_VISIBLE_DEVICES wants it; empty: all are visible
  std::optional<Error> lacks{};       // cores or GPUs that the machine has not; it cannot be started then

  template <class V>
  void fields(V& v) {
    v("slot", slot), v("slots", slots), v("cpus", cpus), v("gpus", gpus), v("lacks", lacks);
  }
};

class Shares {
 public:
  struct Of {
    std::uint32_t slots = 0;                 // of a host; at least as many as its ranks are counted
    const wire::HostFacts* facts = nullptr;  // null: nothing is known of it, and nobody is bound
  };
  // `about` is asked once a host that has ranks; its facts must outlive this.
  Shares(const JobSpec& job, const Placement& world, const std::function<Of(HostIndex)>& about);

  [[nodiscard]] Share of(const Seat& seat) const;

 private:
  struct Part {  // of a machine
    std::uint32_t first = 0, machine = 0;
    const wire::HostFacts* facts = nullptr;
  };
  const JobSpec& job_;
  std::map<HostIndex, Part> parts_;
  std::vector<std::uint32_t> slots_;  // of each machine
};

}  // namespace trainrun::core
