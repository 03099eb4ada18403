#include "launcher/core/scheduling.h"

#include "launcher/core/binding.h"
#include "launcher/core/env_var.h"
#include "launcher/core/preload.h"

namespace trainrun::core {
namespace {

bool sees_a_gpu(const JobSpec& job, const Program& program, const wire::HostFacts& facts) {
  if (facts.gpus == 0) return false;
  const auto* own = find_variable(program.env, "CUDA_VISIBLE_DEVICES");
  const auto* visible = own != nullptr ? own : find_variable(job.env, "CUDA_VISIBLE_DEVICES");
  return visible == nullptr || (!visible->empty() && *visible != "-1");
}

bool is_mpi(const Seat& seat, const wire::HostFacts& facts) {
  return seat.program < facts.programs.mpi.size() &&
         facts.programs.mpi[seat.program].family != wire::MpiFamily::none;
}

}  // namespace

bool is_python(const Program& program) {
  return python_command(program.argv).refused.empty() ||
         (!program.argv.empty() && program.argv.front().ends_with(".py"));
}

bool runs_in_batch(const JobSpec& job, const Seat& seat, const wire::HostFacts& facts) {
  if (job.scheduling != Scheduling::automatic) return job.scheduling == Scheduling::batch;
  const auto& program = job.programs[seat.program];
  return is_python(program) && !is_mpi(seat, facts) && !sees_a_gpu(job, program, facts) &&
         seat.local_size > 1 && seat.local_size >= usable_cores(facts);
}

}  // namespace trainrun::core
