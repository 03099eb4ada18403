// Text of unknown origin: is it UTF-8, and how is it shown without doing anything to a terminal?
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace trainrun {

// Bytes of the character at the start of `text`, which is not empty; 0 if it is none that UTF-8 has.
std::size_t utf8_length(std::string_view text);
bool is_utf8(std::string_view text);
// At most `limit` bytes of it, cut between two characters.
std::string_view first_bytes(std::string_view text, std::size_t limit);

// One line that no terminal obeys: control characters, those of C1 (U+0080 to U+009F) too, and bytes that are
// no UTF-8 become \xNN. The rest stays as it is.
std::string printable(std::string_view text);

}  // namespace trainrun
