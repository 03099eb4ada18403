// Python's pickles, as far as they are data. A pickle is a program for a machine with a stack, and most of
// its opcodes import modules and call what is in them: of those none exists here. What is left makes text,
// bytes, small numbers, tuples, lists and dictionaries of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/base/error.h"

namespace trainrun::rendezvous {

class Pickle {
 public:
  static constexpr std::size_t most_bytes = 64u << 10;

  // A value by its number. A container may be in more than one other, and even in itself: whatever walks them
  // goes no deeper than the shape that it expects.
  using Ref = std::uint32_t;
  enum class Kind : std::uint8_t { text, bytes, number, tuple, list, dict, mark };
  struct Value {
    Kind kind = Kind::mark;
    std::string text{};  // of text and bytes
    std::int64_t number = 0;
    std::vector<Ref> parts{};  // of a dictionary: key, value, key, value
  };

  static Result<Pickle> read(std::string_view bytes);

  [[nodiscard]] const Value& root() const { return at(root_); }
  [[nodiscard]] const Value& at(Ref ref) const { return values_[ref]; }

 private:
  friend class PickleMachine;
  std::vector<Value> values_;
  Ref root_ = 0;
};

}  // namespace trainrun::rendezvous
