// The reader of the output bench: takes stdin to its end and checks every line (lines.h): whole, in its
// rank's order, none missing, none twice, each behind its rank's label.
//
//   bench_reader RANKS BYTES_A_RANK [STALL_MS]
//
// With STALL_MS it reads nothing for so long, once, after a quarter of the bytes. Says what it saw as JSON;
// exit code 1 if anything was wrong.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "tests/bench/lines.h"

namespace {

struct Seen {
  std::uint64_t next = 0, bytes = 0;
};

class Checker {
 public:
  explicit Checker(unsigned ranks) : seen_(ranks) {}

  void line(const char* begin, const char* end) {
    ++lines_;
    if (!good(begin, end) && bad_++ == 0)
      first_bad_.assign(begin, begin + std::min<std::ptrdiff_t>(end - begin, 100));
  }

  int report(std::uint64_t wanted, std::size_t rest) const {
    std::uint64_t bytes = 0, missing = 0;
    for (const auto& rank : seen_) {
      bytes += rank.bytes;
      missing += rank.bytes < wanted ? wanted - rank.bytes : 0;
    }
    std::printf(
        "{\"lines\": %llu, \"bytes\": %llu, \"bad\": %llu, \"missing_bytes\": %llu, \"unended_bytes\": "
        "%zu}\n",
        ull(lines_), ull(bytes), ull(bad_), ull(missing), rest);
    if (bad_ > 0)
      std::fprintf(stderr, "the first bad line: %.*s\n", static_cast<int>(first_bad_.size()),
                   first_bad_.data());
    return bad_ > 0 || missing > 0 || rest > 0 ? 1 : 0;
  }

 private:
  static unsigned long long ull(std::uint64_t number) { return number; }

  bool good(const char* at, const char* end) {
    unsigned label = 0, rank = 0;
    std::uint64_t sequence = 0;
    if (at == end || *at++ != '[') return false;
    while (at != end && *at == ' ') ++at;
    if (!number(at, end, label)) return false;
    if (at != end && *at == ',' && !number(++at, end, label)) return false;
    const std::string_view rest(at, static_cast<std::size_t>(end - at));
    const std::string_view close = rest.starts_with("] ") ? "] " : "]<stdout>:";
    if (!rest.starts_with(close)) return false;
    at += close.size();
    const char* const own = at;
    if (!number(at, end, rank) || at == end || *at++ != ' ') return false;
    if (!number(at, end, sequence) || at == end || *at++ != ' ') return false;
    if (rank != label || rank >= seen_.size()) return false;
    const auto length = bench::text_length(rank, sequence);
    if (static_cast<std::size_t>(end - at) != length) return false;
    if (std::memcmp(at, pattern_.text(rank, sequence), length) != 0) return false;
    const bool in_order = sequence == seen_[rank].next;
    seen_[rank].next = sequence + 1;  // one loss must not make every later line wrong
    seen_[rank].bytes += static_cast<std::uint64_t>(end - own) + 1;
    return in_order;
  }

  template <class Number>
  static bool number(const char*& at, const char* end, Number& value) {
    const auto [after, error] = std::from_chars(at, end, value);
    at = after;
    return error == std::errc{};
  }

  bench::Pattern pattern_;
  std::vector<Seen> seen_;
  std::vector<char> first_bad_;
  std::uint64_t lines_ = 0, bad_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const auto ranks = static_cast<unsigned>(std::atoi(argv[1]));
  const std::uint64_t wanted = std::strtoull(argv[2], nullptr, 10);
  int stall_ms = argc > 3 ? std::atoi(argv[3]) : 0;
  Checker checker(ranks);
  std::vector<char> buffer(4u << 20);
  std::size_t held = 0;
  std::uint64_t taken = 0;
  for (;;) {
    if (held == buffer.size()) buffer.resize(2 * buffer.size());
    const ssize_t n = read(0, buffer.data() + held, buffer.size() - held);
    if (n <= 0) break;
    taken += static_cast<std::uint64_t>(n);
    const char* begin = buffer.data();
    const char* const end = buffer.data() + held + n;
    while (const void* newline = std::memchr(begin, '\n', static_cast<std::size_t>(end - begin))) {
      checker.line(begin, static_cast<const char*>(newline));
      begin = static_cast<const char*>(newline) + 1;
    }
    held = static_cast<std::size_t>(end - begin);
    std::memmove(buffer.data(), begin, held);
    if (stall_ms > 0 && taken >= ranks * wanted / 4) {
      poll(nullptr, 0, stall_ms);
      stall_ms = 0;
    }
  }
  return checker.report(wanted, held);
}
