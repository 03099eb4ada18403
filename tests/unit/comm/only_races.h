// Of a build for ThreadSanitizer: each byte that moves and each thread costs many times as much, and races
// show among few ranks.
#pragma once

namespace trainrun::comm {

#ifdef __SANITIZE_THREAD__
constexpr bool only_races = true;
#else
constexpr bool only_races = false;
#endif

}  // namespace trainrun::comm
