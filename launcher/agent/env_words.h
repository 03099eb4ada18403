// The words "NAME=VALUE" of an environment as execve takes them. Every start of a worker writes some: all of
// them stand in one piece of memory, ordered by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/wire/messages.h"

namespace trainrun::agent {

class EnvWords {
 public:
  EnvWords() = default;
  explicit EnvWords(const wire::EnvPairs& pairs, const wire::EnvPairs& more = {}) { write(pairs, more); }
  EnvWords(const EnvWords&) = delete;
  EnvWords& operator=(const EnvWords&) = delete;

  // In place of what was there. Of a name that is there twice the last entry counts.
  void write(const wire::EnvPairs& pairs, const wire::EnvPairs& more = {});
  // These, but for what `over` has as well, and `over`. The words live as long as both.
  [[nodiscard]] std::vector<const char*> with(const EnvWords& over) const;

 private:
  struct Word {
    std::string_view name;
    const char* text;
  };
  std::vector<char> memory_;
  std::vector<Word> words_;
};

}  // namespace trainrun::agent
