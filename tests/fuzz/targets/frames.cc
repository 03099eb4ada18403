// Frames of a Link out of a stream, in any pieces: the same frames, and the same end.
#include "launcher/wire/frame.h"

#include <cstring>

#include "tests/fuzz/check.h"

using namespace trainrun;
using namespace trainrun::fuzz;

namespace {

struct Cut {
  std::vector<std::string> frames;
  bool failed = false;
  friend bool operator==(const Cut&, const Cut&) = default;
};

Cut cut(std::string_view bytes, std::size_t step) {
  wire::FrameReader reader;
  Cut out;
  while (!bytes.empty() && !reader.failed()) {
    const auto space = reader.space();
    FUZZ_CHECK(space.size >= 65536);
    const auto part = bytes.substr(0, std::min(step, space.size));
    std::memcpy(space.data, part.data(), part.size());
    reader.filled(part.size());
    bytes.remove_prefix(part.size());
    while (const auto frame = reader.next()) {
      FUZZ_CHECK(frame->payload.size() < wire::frame_limit);
      out.frames.push_back(static_cast<char>(frame->type) + std::string(frame->payload));
    }
  }
  out.failed = reader.failed();
  return out;
}

}  // namespace

// The first byte: how many bytes come at a time.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = text_of(data, size).substr(1);
  const auto whole = cut(bytes, bytes.size());
  if (!whole.frames.empty() && !whole.failed) accepted();
  FUZZ_CHECK(cut(bytes, std::size_t{data[0]} + 1) == whole);
  return 0;
}
