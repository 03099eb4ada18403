// What is decided about ranks that could be forked, without doing anything: pure.
#pragma once

#include <sys/types.h>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/base/id.h"
#include "launcher/wire/messages.h"

namespace trainrun::agent {

// Room in the zygote's own environment for that of a rank (its words and their ends), which is written over
// it.
constexpr std::size_t zygote_pad = 64u << 10;
// What is forked at once: of this size at the most together, so that all of it goes into the socket.
constexpr std::size_t most_bytes_at_once = 96u << 10;
constexpr std::size_t most_at_once = 64;

// The first variable that counts at the start of a process or of the interpreter, or when a library is
// loaded, and is not the same for the zygote and the rank. Words are NAME=VALUE.
std::optional<std::string> differing_variable(const std::vector<std::string>& zygote,
                                              const std::vector<std::string>& rank);

std::size_t bytes_of(const std::vector<std::string>& words);

// The same program, in the same place, with all that the zygote was given for its ranks alone.
bool is_of(const wire::Preload::Program& program, const wire::Start& order,
           const std::vector<std::string>& rank);

// NAME=VALUE words of `env NAME=VALUE... python3` put over a rank's.
std::vector<std::string> with_words_of_env(const wire::Preload::Program& program,
                                           std::vector<std::string> rank);

// How the interpreter is first called: -c, which refuses, stands before the script.
std::vector<std::string> zygote_line(const wire::Preload::Program& program);

// What a zygote has said: words that a NUL separates.
std::vector<std::string> fields_of(std::string_view packet);
struct Forked {
  WorkerId worker;
  pid_t pid = -1;
};
std::optional<Forked> parse_forked(std::string_view field);  // "12 4711"

}  // namespace trainrun::agent
