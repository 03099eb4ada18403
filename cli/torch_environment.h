// PET_* variables: torchrun takes each of its options from one too, and job controllers set them. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/argv.h"
#include "launcher/base/error.h"
#include "launcher/core/job_spec.h"

namespace trainrun::cli {

struct TorchEnvironment {
  std::vector<Setting> settings;  // the weakest layer
  std::vector<LeftOut> left_out;  // what changes nothing here
};

// An Error is a variable that asks for what is not supported, as the flag of that name would.
Result<TorchEnvironment> read_torch_environment(const std::vector<EnvVar>& environment);

}  // namespace trainrun::cli
