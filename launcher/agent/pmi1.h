// The lines of PMI-1, as MPICH, MVAPICH and Intel MPI speak it with whoever started them: words `key=value`
// between single blanks, the first one `cmd=` (or `mcmd=` for the first line of a block of spawn). Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainrun::agent::pmi1 {

// What clients are told to keep to. A client of MPICH 4.0 reads at most 1024 bytes a line, the name of the
// key space and the key included, and cuts what is longer into pieces by itself.
constexpr std::size_t longest_key = 64, longest_value = 800, longest_name = 256;
// What a client may send. Newer ones have no limit of their own.
constexpr std::size_t longest_line = 64u << 10;

class Line {
 public:
  // Nothing for what is no line of this protocol. `text` has no newline and must outlive the result.
  static std::optional<Line> parse(std::string_view text);
  [[nodiscard]] std::string_view command() const { return command_; }
  [[nodiscard]] bool begins_block() const { return block_; }  // more lines follow, until `endcmd`
  // The value of the first word with this key; empty when there is none.
  [[nodiscard]] std::string_view get(std::string_view key) const;

 private:
  std::string_view command_;
  bool block_ = false;
  std::vector<std::pair<std::string_view, std::string_view>> words_;
};

// A text as a value: clients know no quotes, and take an empty value for a mistake.
std::string as_value(std::string_view text);

}  // namespace trainrun::agent::pmi1
