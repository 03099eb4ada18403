#include "tests/fuzz/mutate.h"

#include <algorithm>
#include <array>

using namespace std::literals;

namespace trainrun::fuzz {
namespace {

// splitmix64: the standard library's distributions differ between implementations.
class Random {
 public:
  Random(std::uint64_t seed, std::uint64_t index) : state_(seed * 0x9e3779b97f4a7c15ULL + index) {
    for (int i = 0; i < 2; ++i) next();
  }
  std::uint64_t next() {
    auto z = state_ += 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  std::size_t below(std::size_t bound) { return bound == 0 ? 0 : static_cast<std::size_t>(next() % bound); }
  // Small ones mostly.
  std::size_t length(std::size_t bound) {
    return below(std::min(bound, std::size_t{1} << (1 + below(7)))) + 1;
  }
  char byte() { return static_cast<char>(next() & 0xff); }

 private:
  std::uint64_t state_;
};

constexpr std::array<std::string_view, 17> numbers{"0",
                                                   "1",
                                                   "-1",
                                                   "255",
                                                   "256",
                                                   "65535",
                                                   "65536",
                                                   "00000",
                                                   "2147483647",
                                                   "2147483648",
                                                   "4294967295",
                                                   "4294967296",
                                                   "1e9",
                                                   "18446744073709551615",
                                                   "18446744073709551616",
                                                   "99999999999999999999999",
                                                   "9223372036854775808"};
constexpr auto bytes_of_interest = "\0\x01\x7f\x80\xfe\xff\n\r\t \"'\\,:;=[]{}()#/@-%*"sv;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The number that stands at or after a random place gives way to one at an edge.
void change_number(std::string& text, Random& random) {
  const auto from = text.begin() + static_cast<std::ptrdiff_t>(random.below(text.size()));
  const auto first = std::find_if(from, text.end(), is_digit);
  const auto last = std::find_if_not(first, text.end(), is_digit);
  if (first != last) text.replace(first, last, numbers[random.below(numbers.size())]);
}

void change(std::string& text, const Inputs& corpus, const Inputs& words, Random& random) {
  const auto at = random.below(text.size() + 1);
  const auto piece_of = [&random](const std::string& whole) {
    const auto start = random.below(whole.size());
    return whole.substr(start, random.length(whole.size() - start));
  };
  switch (random.below(words.empty() ? 10 : 13)) {
    case 0:
      if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << random.below(8)));
      return;
    case 1:
      if (at < text.size()) text[at] = bytes_of_interest[random.below(bytes_of_interest.size())];
      return;
    case 2:
      if (at < text.size()) text[at] = random.byte();
      return;
    case 3:
      text.insert(
          at, 1,
          random.below(2) == 0 ? random.byte() : bytes_of_interest[random.below(bytes_of_interest.size())]);
      return;
    case 4:
      text.erase(at, random.length(text.size()));
      return;
    case 5:
      text.resize(at);
      return;
    case 6: {  // a piece twice, or very often: lengths are where limits are
      const auto piece = piece_of(text);
      for (auto times = random.below(16) == 0 ? random.below(1000) : 1; times > 0; --times) {
        if (text.size() + piece.size() > longest_input) return;
        text.insert(std::min(at, text.size()), piece);
      }
      return;
    }
    case 7:
      text.insert(at, piece_of(corpus[random.below(corpus.size())]));
      return;
    case 8: {  // the end of another one
      const auto& other = corpus[random.below(corpus.size())];
      text = text.substr(0, at) + other.substr(random.below(other.size() + 1));
      return;
    }
    case 9:
      change_number(text, random);
      return;
    default: {
      const auto& word = words[random.below(words.size())];
      if (random.below(3) == 0) text.erase(at, word.size());
      text.insert(at, word);
    }
  }
}

}  // namespace

std::string mutated(const Inputs& corpus, const Inputs& words, std::uint64_t seed, std::uint64_t index) {
  Random random(seed, index);
  auto text = corpus[random.below(corpus.size())];
  for (auto changes = 1 + random.below(random.below(2) == 0 ? 2 : 8); changes > 0; --changes) {
    change(text, corpus, words, random);
  }
  if (text.size() > longest_input) text.resize(longest_input);
  return text;
}

}  // namespace trainrun::fuzz
