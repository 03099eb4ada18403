// Open MPI's files of ranks.
#include "cli/rank_file.h"

#include <fmt/format.h>

#include "tests/fuzz/check.h"

using namespace trainrun;
using namespace trainrun::fuzz;

namespace {

std::string line_of(std::size_t rank, const cli::RankLine& line) {
  auto out = fmt::format("rank {}={}", rank, line.host);
  for (std::size_t i = 0; i < line.cores.size(); ++i) {
    const auto& [socket, first, last] = line.cores[i];
    out += i == 0 ? " slot=" : ",";
    if (socket >= 0) out += fmt::format("{}:", socket);
    out += last == UINT32_MAX ? "*" : fmt::format("{}-{}", first, last);
  }
  return out + "\n";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto text = text_of(data, size);
  const auto lines = cli::parse_rank_file(text, "dir/ranks");
  if (!lines) {
    const auto& message = lines.error().message;
    if (message == "dir/ranks: names no rank" || message.starts_with("dir/ranks: there is no line for rank "))
      return 0;
    return check_line_number(lines.error(), "dir/ranks:", lines_in(text)), 0;
  }
  accepted();
  FUZZ_CHECK(!lines->empty());
  std::string written;
  for (std::size_t rank = 0; rank < lines->size(); ++rank) {
    for (const auto& range : (*lines)[rank].cores) FUZZ_CHECK(range.first <= range.last);
    written += line_of(rank, (*lines)[rank]);
  }
  const auto again = cli::parse_rank_file(written, "again");
  if (!again) show("written", written), show("error", again.error().message);
  FUZZ_CHECK(again && again->size() == lines->size());
  for (std::size_t rank = 0; rank < lines->size(); ++rank) {
    FUZZ_CHECK((*again)[rank].host == (*lines)[rank].host);
    FUZZ_CHECK((*again)[rank].cores == (*lines)[rank].cores);
  }
  return 0;
}
