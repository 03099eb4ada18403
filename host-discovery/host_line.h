// One line about one host: an item (host_grammar.h), then key=value words. What host files and discovery
// scripts have in common.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "host-discovery/host.h"
#include "launcher/base/error.h"

namespace trainrun::hosts {

inline constexpr std::size_t longest_line = 64 * 1024;  // bytes, without its end

// Takes comments (`#` and `//` to the end of the line, `/* */` also over several) away from lines and cuts
// the rest into words; `a = b`, `a= b` and `a =b` become `a=b`. Keeps what must be known from line to line.
class LineCutter {
 public:
  [[nodiscard]] bool inside_comment() const { return inside_comment_; }
  std::vector<std::string> cut(std::string_view line);

 private:
  bool inside_comment_ = false;
};

// file       a person wrote it: an unknown key is a mistake
// discovery  a program wrote it: other keys are for others (zone=, spot=), `gpus` counts when no slots are
//            given
enum class LineRules : std::uint8_t { file, discovery };

// Takes the end of `host:0` away, if it is there. The colon of an IPv6 address without brackets is none of a
// count.
bool take_zero(std::string& word);

// The hosts of a line that has at least one word; several when its name holds ranges. `slots=0` is what it
// says: no rank is to run there. Errors quote the word.
Result<std::vector<Host>> read_host_line(const std::vector<std::string>& words, LineRules rules);

// Takes the next line off `text`, without its end (LF or CRLF). The last one may have no end. An error for
// what is too long or no text.
Result<std::string_view> take_line(std::string_view& text);

}  // namespace trainrun::hosts
