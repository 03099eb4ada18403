// What the loop tells the clock, and asks it. Of io alone.
#pragma once

#include "launcher/base/time.h"

namespace trainrun::io {

// The process runs, and will say so again within `until_next`, if nothing stops it.
void beat(Duration until_next);
// Now, without stops; finds one that nobody has seen yet.
Instant running_now();

}  // namespace trainrun::io
