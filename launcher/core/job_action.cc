#include "launcher/core/job_action.h"

namespace trainrun::core {

TRAINRUN_COMPILED_HERE(JobAction)

}  // namespace trainrun::core
