// Whether the driver finds what it is there to find.
#pragma once

namespace trainrun::fuzz {

// 0 when a target that is sound passes, and each of several broken ones is caught with an input on which it
// fails again.
int self_test();

}  // namespace trainrun::fuzz
