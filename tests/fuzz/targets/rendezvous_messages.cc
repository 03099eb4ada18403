// Requests and replies of the rendezvous protocol, and the records they come in. The first byte says how many
// bytes come at a time.
#include <variant>

#include "rendezvous/protocol.h"
#include "tests/fuzz/check.h"

using namespace trainrun;
using namespace trainrun::fuzz;
using namespace trainrun::rendezvous;

namespace {

constexpr std::size_t limit = 4096;

// Nothing at the end of the records: the last one was above the limit.
std::vector<std::string> records_in(std::string_view bytes, std::size_t step, bool& failed) {
  RecordReader reader(limit);
  std::vector<std::string> records;
  while (!bytes.empty() && !failed) {
    reader.feed(bytes.substr(0, step));
    bytes.remove_prefix(std::min(step, bytes.size()));
    for (;;) {
      auto record = reader.next();
      failed = !record;
      if (failed) check_error(record.error());
      if (failed || !*record) break;
      FUZZ_CHECK((*record)->size() <= limit);
      records.push_back(std::move(**record));
    }
  }
  return records;
}

// The encoding of a message is unique.
void check_message(std::string_view bytes) {
  if (const auto request = decode_request(bytes)) {
    accepted();
    FUZZ_CHECK(encode(*request) == bytes);
  } else {
    check_error(request.error());
  }
  if (const auto reply = decode_reply(bytes)) {
    accepted();
    FUZZ_CHECK(encode_reply(reply->id, reply->body) == bytes);
    if (const auto* over = std::get_if<Over>(&reply->body)) static_cast<void>(describe(over->verdict));
  } else {
    check_error(reply.error());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = text_of(data, size).substr(1);
  bool failed = false, failed_again = false;
  const auto records = records_in(bytes, bytes.size(), failed);
  FUZZ_CHECK(records_in(bytes, std::size_t{data[0]} + 1, failed_again) == records);
  FUZZ_CHECK(failed == failed_again);
  for (const auto& record : records) check_message(record);
  check_message(bytes);
  return 0;
}
