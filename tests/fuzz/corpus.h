// The committed inputs of a target, and its dictionary.
#pragma once

#include <string>
#include <vector>

#include "launcher/base/error.h"

namespace trainrun::fuzz {

struct Seed {
  std::string name;  // good*: the parser must take it; bad*: it must not; others: as it likes
  std::string bytes;
};

// Those of corpus/TARGET, sorted by name. A file *.hex holds bytes as pairs of hexadecimal digits and text
// between double quotes, blanks as it likes, and # comments. An Error when there is none.
Result<std::vector<Seed>> read_corpus(const std::string& directory);

// The words of a dictionary as libFuzzer has it: lines "word" or name="word" with \xNN, \\ and \". None when
// there is no such file.
Result<std::vector<std::string>> read_dictionary(const std::string& path);

}  // namespace trainrun::fuzz
