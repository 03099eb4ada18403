// The exception that ended a rank, as torch's @record wrote it down (the JSON of TORCHELASTIC_ERROR_FILE).
// Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainrun::output {

struct RecordedError {
  std::vector<std::string> what;  // "ValueError: bad batch", and a few lines more of its message; never empty
  std::string where{};  // "/home/u/train.py:12, in step"; the user's own code if any is in the traceback

  friend bool operator==(const RecordedError&, const RecordedError&) = default;
};

// Anybody can write such a file: what is not of the two known forms is nothing. The texts are as they were
// written, cut in length and number; whoever prints them makes them printable.
std::optional<RecordedError> read_recorded_error(std::string_view json);

}  // namespace trainrun::output
