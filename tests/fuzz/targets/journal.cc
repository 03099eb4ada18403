// The journal of a job: a whole one, or records that follow a header; as they are, and with their sums put
// right.
#include "launcher/core/journal.h"

#include "launcher/core/record_decoder.h"
#include "launcher/core/spec_record.h"
#include "tests/fuzz/check.h"

using namespace trainrun;
using namespace trainrun::fuzz;

namespace {

namespace journal = core::journal;

// What was read once is read again from its own bytes, and can be printed.
void check_entry(const journal::Entry& entry) {
  const auto bytes = core::encode(entry);
  const auto again = core::decode<journal::Entry>(bytes);
  FUZZ_CHECK(again && core::encode(*again) == bytes);
  if (const auto* step = std::get_if<journal::Step>(&entry)) FUZZ_CHECK(!core::print(step->event).empty());
}

bool read(std::string_view bytes) {
  auto reader = journal::Reader::open(bytes);
  if (!reader) {
    check_error(reader.error());
    return false;
  }
  check_entry(reader->header());
  while (true) {
    const auto entry = reader->next();
    if (!entry) {
      check_error(entry.error());
      return false;
    }
    if (!*entry) return true;
    check_entry(**entry);
  }
}

// Else hardly any change of an input would get beyond the sum.
std::string put_right(std::string_view bytes) {
  std::string out(bytes);
  constexpr std::size_t head = 4 + 8;
  for (auto at = out.find('\n') + 1; at != 0 && at + head <= out.size();) {
    std::size_t length = 0;
    for (int i = 0; i < 4; ++i) length = length << 8 | static_cast<unsigned char>(out[at + i]);
    if (length == 0 || length > out.size() - at - head) break;
    std::uint64_t sum = 14695981039346656037u;
    for (std::size_t i = 0; i < length; ++i)
      sum = (sum ^ static_cast<unsigned char>(out[at + head + i])) * 1099511628211u;
    for (int i = 0; i < 8; ++i) out[at + 4 + i] = static_cast<char>(sum >> (56 - 8 * i));
    at += head + length;
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto bytes = std::string(text_of(data, size));
  if (!bytes.starts_with("trainrun ")) bytes = journal::begin({}) + bytes;
  read(bytes);
  if (read(put_right(bytes))) accepted();
  return 0;
}
