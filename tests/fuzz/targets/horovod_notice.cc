// What an elastic rank of Horovod writes down of its notification service (base64 of a pickle), and what
// listens there answers. The first byte says which: `r`, a reply; anything else belongs to the value.
#include "rendezvous/adapters/horovod_notice.h"

#include "rendezvous/adapters/pickle.h"
#include "rendezvous/digest.h"
#include "tests/fuzz/check.h"

using namespace trainrun;
using namespace trainrun::fuzz;
using namespace trainrun::rendezvous;

namespace {

void check_reply(std::string_view bytes) {
  const std::string key(32, 'k');
  const auto whole = read_horovod_reply(key, bytes);
  // It is taken at its end and not before, and what was wrong does not become right.
  for (const auto size : {bytes.size() / 2, bytes.size() - std::min<std::size_t>(bytes.size(), 1)}) {
    const auto part = read_horovod_reply(key, bytes.substr(0, size));
    if (size < bytes.size() && whole == HorovodReply::acknowledged)
      FUZZ_CHECK(part == HorovodReply::incomplete);
    FUZZ_CHECK(part != HorovodReply::wrong || whole == HorovodReply::wrong);
  }
  if (whole == HorovodReply::acknowledged) accepted();
}

void check_pickle(std::string_view bytes) {
  const auto pickle = Pickle::read(bytes);
  if (!pickle) return check_error(pickle.error());
  FUZZ_CHECK(pickle->root().kind != Pickle::Kind::mark);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = text_of(data, size);
  if (input.starts_with('r')) {
    check_reply(input.substr(1));
    return 0;
  }
  check_pickle(input);
  const auto service = read_horovod_service(input);
  if (!service) {
    check_error(service.error());
    return 0;
  }
  FUZZ_CHECK(service->key.size() == 32 && service->endpoints.size() <= HorovodService::most_endpoints);
  for (const auto& endpoint : service->endpoints) FUZZ_CHECK(endpoint.port != 0);
  accepted();
  return 0;
}
