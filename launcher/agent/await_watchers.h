// The end of watchers that this process started, which go a moment after their agents.
#pragma once

#include "launcher/base/time.h"

namespace trainrun::agent {

// Reaps them, for whoever follows us as their parent may not, and a job that started ours would find them
// as something left behind. Blocks, but not for longer than `limit`.
void await_watchers(Duration limit);

}  // namespace trainrun::agent
