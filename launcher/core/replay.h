// Lets a JobMachine decide again what a journal tells of. Pure.
#pragma once

#include <cstdint>
#include <string_view>

#include "launcher/core/job_machine.h"
#include "launcher/core/journal.h"

namespace trainrun::core {

class Replay {
 public:
  // An Error where a machine cannot be made of the header: no launcher has ever had such a job.
  static Result<Replay> of(const journal::Header& header);

  struct Decided {
    JobActions actions;
    bool as_then = false;  // the launcher's were the same, to the last byte
  };
  Result<Decided> step(const journal::Step& step);

 private:
  explicit Replay(const journal::Header& header);

  Instant began_;
  std::unique_ptr<JobMachine> machine_;
  std::uint32_t hosts_;
  std::uint64_t number_ = 0;
};

}  // namespace trainrun::core
