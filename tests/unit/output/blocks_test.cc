// Many lines at once are passed on by a way of their own: whatever they say, it ends as line by line.
#include <doctest/doctest.h>

#include <random>

#include "launcher/base/strings.h"
#include "launcher/output/last_words.h"
#include "launcher/output/mux.h"
#include "tests/unit/output/muxes.h"

using namespace trainrun;
using namespace trainrun::output;

namespace {

using Random = std::mt19937;

const std::string& one_of(const std::vector<std::string>& all, Random& random) {
  return all[random() % all.size()];
}

std::string some_lines(Random& random) {
  static const std::vector<std::string> plain{"step 1", "loss\t0.5", "",     "  ",
                                              "x",      "-----",     "\t\t", "a line"};
  static const std::vector<std::string> telling{"Traceback (most recent call last):",
                                                "  File \"train.py\", line 9, in <module>",
                                                "ValueError: loss is NaN",
                                                "Exception ignored in: <function f>",
                                                "terminate called after throwing",
                                                "[node1:42] [ 1] /lib/libc.so.6(+0x3c) [0x7f00]",
                                                "  + Exception Group Traceback (most recent call last):",
                                                "  | Traceback (most recent call last):",
                                                "\x1b[31mred\x1b[0m",
                                                "\x1b[31m",
                                                "10%\r20%\r",
                                                "20% \r   ",
                                                "Assertion `x' failed."};
  std::string text;
  const bool tells = random() % 3 == 0;
  for (auto count = random() % 40; count > 0; --count)
    text += one_of(tells && random() % 4 == 0 ? telling : plain, random) + (random() % 9 == 0 ? "" : "\n");
  return text;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for (; text.find('\n') != std::string_view::npos; text.remove_prefix(text.find('\n') + 1))
    lines.emplace_back(text.substr(0, text.find('\n')));
  return lines;
}

template <class Words>
void check_blocks(Random& random) {
  Words by_line, by_block;
  std::string all;
  for (int block = 0; block < 6; ++block) {
    const auto text = some_lines(random) + "\n";
    all += text;
    for (const auto& line : lines_of(text)) by_line.add(line);
    by_block.add_lines(text);
    CAPTURE(all);
    REQUIRE(by_block.lines() == by_line.lines());
  }
}

}  // namespace

TEST_SUITE("blocks of lines") {
  TEST_CASE("leave the same last words and last lines") {
    Random random(7);  // fixed: a failure repeats
    for (int i = 0; i < 3000; ++i) {
      check_blocks<LastWords>(random);
      check_blocks<LastLines>(random);
    }
  }

  TEST_CASE("are shown as the same bytes in pieces of one byte are") {
    Random random(8);
    for (int i = 0; i < 1500; ++i) {
      auto style = plain_style(2);
      style.timestamp = random() % 4 == 0;
      style.one_file = random() % 2 == 0;
      style.raw = random() % 6 == 0;
      if (random() % 4 == 0) style.labels = {"", ""};
      if (random() % 4 == 0) style.hidden = {{.out = random() % 2 == 0, .err = random() % 2 == 0}, {}};
      const auto clock = [] { return std::string("12:00"); };
      Mux in_blocks(style, clock), in_bytes(style, clock);
      std::string blocks_out, blocks_err, bytes_out, bytes_err;
      for (int step = 0; step < 8; ++step) {
        const auto rank = static_cast<std::uint32_t>(random() % 2);
        const auto stream = random() % 2 == 0 ? Output::out : Output::err;
        const auto text = some_lines(random);
        const bool of_err = stream == Output::err && !style.one_file;
        in_blocks.feed(rank, stream, text, of_err ? blocks_err : blocks_out);
        for (const char byte : text)
          in_bytes.feed(rank, stream, std::string(1, byte), of_err ? bytes_err : bytes_out);
        if (random() % 3 == 0) {
          in_blocks.show_begun(blocks_out, blocks_err);
          in_bytes.show_begun(bytes_out, bytes_err);
        }
        REQUIRE(blocks_out == bytes_out);
        REQUIRE(blocks_err == bytes_err);
        REQUIRE(in_blocks.begun_is_held() == in_bytes.begun_is_held());
        for (std::uint32_t each = 0; each < 2; ++each) {
          REQUIRE(in_blocks.last_words(each) == in_bytes.last_words(each));
          REQUIRE(in_blocks.last_output(each) == in_bytes.last_output(each));
        }
      }
    }
  }
}
