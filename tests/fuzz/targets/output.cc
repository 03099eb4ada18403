// What workers write, on its way to a file and to a terminal. Bytes choose a rank, a stream and a length.
#include <array>

#include "launcher/base/strings.h"
#include "launcher/output/mux.h"
#include "tests/fuzz/check.h"

using namespace trainrun;
using namespace trainrun::fuzz;

namespace {

constexpr std::uint32_t ranks = 3;
constexpr std::array<std::string_view, ranks> labels{"[0] ", "[1] ", "[2] "};

output::Mux make_mux(bool terminal) {
  output::MuxStyle style;
  style.labels.assign(labels.begin(), labels.end());
  style.terminal_out = style.terminal_err = terminal;
  return {std::move(style), [] { return std::string("now"); }};
}

// Colours alone may be left.
std::string without_colours(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto end =
        text.starts_with("\x1b[") ? text.find_first_not_of("0123456789;:", 2) : std::string_view::npos;
    if (end != std::string_view::npos && text[end] == 'm') {
      text.remove_prefix(end + 1);
    } else {
      out += text.front();
      text.remove_prefix(1);
    }
  }
  return out;
}

void check_line(std::string_view line) {
  auto plain = without_colours(line);
  std::replace(plain.begin(), plain.end(), '\t', ' ');
  FUZZ_CHECK(!has_control(plain));
}

struct Written {
  std::uint32_t rank;
  wire::Output stream;
  std::string_view bytes;
};

std::string show(const std::vector<Written>& all, bool terminal) {
  auto mux = make_mux(terminal);
  std::string out, err;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& one = all[i];
    mux.feed(one.rank, one.stream, one.bytes, one.stream == wire::Output::out ? out : err);
    if (i % 5 == 3) mux.redraw(out, err);
    if (i % 7 == 6) mux.prompt(one.rank, out, err);
    for (const auto& line : mux.last_words(one.rank)) check_line(line);
  }
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    mux.finish(rank, wire::Output::out, out);
    mux.finish(rank, wire::Output::err, err);
  }
  mux.redraw(out, err);
  FUZZ_CHECK(!mux.bar_waits());
  return out;
}

// Each "\r" that something follows has the label behind it. `line` ends with its newline.
std::string without_tags(std::string_view line, std::string_view label) {
  std::string out;
  while (true) {
    const auto end = line.find_first_not_of('\r', line.find('\r'));
    if (end == std::string_view::npos || line[end] == '\n') return out += line;
    out += line.substr(0, end);
    line.remove_prefix(end);
    FUZZ_CHECK(line.starts_with(label));
    line.remove_prefix(label.size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes bytes(data, size);
  std::vector<Written> all;
  while (!bytes.empty()) {
    const auto what = bytes.byte();
    all.push_back({what % ranks, what % 2 == 0 ? wire::Output::out : wire::Output::err,
                   bytes.take(bytes.byte() % 64u)});
  }
  std::array<std::string, ranks> expected, got;
  for (const auto& one : all) {
    if (one.stream == wire::Output::out) expected[one.rank] += one.bytes;
  }
  // No byte is lost, and none comes twice, but a label goes before each line and each of its states, and the
  // last line gets its end.
  const auto plain = show(all, false);
  for (auto rest = std::string_view(plain); !rest.empty();) {
    const auto line = rest.substr(0, rest.find('\n') + 1);
    FUZZ_CHECK(!line.empty());
    rest.remove_prefix(line.size());
    const auto label = std::find(labels.begin(), labels.end(), line.substr(0, 4));
    FUZZ_CHECK(label != labels.end());
    got[static_cast<std::size_t>(label - labels.begin())] += without_tags(line.substr(4), *label);
  }
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    if (!expected[rank].empty() && !expected[rank].ends_with('\n')) expected[rank] += '\n';
    FUZZ_CHECK(got[rank] == expected[rank] || expected[rank].find('\n') == std::string::npos);
  }
  accepted();
  const auto shown = show(all, true);
  for (const auto line : split(shown, '\n')) check_line(line);
  return 0;
}
