// What fuzz targets share: bytes taken apart, and the checks that hold for every parser.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "host-discovery/host.h"
#include "launcher/base/error.h"

// Not assert(): it must also hold in builds without it.
#define FUZZ_CHECK(condition)                                                   \
  do {                                                                          \
    if (!(condition)) ::trainrun::fuzz::broken(__FILE__, __LINE__, #condition); \
  } while (false)

namespace trainrun::fuzz {

// Says which check failed, and ends the process.
[[noreturn]] void broken(const char* file, int line, const char* condition);
void show(std::string_view label, std::string_view text);  // for a check that is about to fail

// The parser took the input. A corpus file named good* must be taken, one named bad* must not.
void accepted();
std::uint64_t accepted_so_far();

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return size == 0 ? std::string_view() : std::string_view(reinterpret_cast<const char*>(data), size);
}

// Bytes as decisions: after the last one every further answer is 0.
class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : rest_(text_of(data, size)) {}
  [[nodiscard]] bool empty() const { return rest_.empty(); }
  std::uint8_t byte();
  std::string_view take(std::size_t most);
  std::string_view rest() { return take(rest_.size()); }

 private:
  std::string_view rest_;
};

// One line of words for people, without control characters; what it quotes is cut. `begins`: where it stood.
void check_error(const Error& error, std::string_view begins = {});
// The number after `begins` is a line of a text that has `lines` of them, and a colon follows.
void check_line_number(const Error& error, std::string_view begins, std::size_t lines);
std::size_t lines_in(std::string_view text);

// Hosts that passed a parser pass the strict grammars again, that of ssh too, and have sensible numbers.
void check_hosts(const std::vector<Host>& hosts);
// The host as an item of -H; of one with both a port and slots the slots are left out.
std::string item_of(const Host& host);

bool has_control(std::string_view text);  // a control character, also one of C1

}  // namespace trainrun::fuzz
