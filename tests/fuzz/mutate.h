// Inputs made from others: what libFuzzer does, without its knowledge of the code, and the same for a seed on
// any machine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trainrun::fuzz {

using Inputs = std::vector<std::string>;

inline constexpr std::size_t longest_input = 64 * 1024;

// One of `corpus` with one to eight changes. `seed` and `index` name it for ever. `words`: the dictionary.
std::string mutated(const Inputs& corpus, const Inputs& words, std::uint64_t seed, std::uint64_t index);

}  // namespace trainrun::fuzz
