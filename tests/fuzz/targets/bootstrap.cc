// What a host says before an agent speaks. The first byte: how many bytes come at a time.
#include "launcher/transport/bootstrap.h"

#include "launcher/transport/last_words.h"
#include "launcher/transport/openssh_words.h"
#include "tests/fuzz/check.h"

using namespace trainrun;
using namespace trainrun::fuzz;
using namespace trainrun::transport;

namespace {

const std::string nonce = "00112233445566778899aabbccddeeff";

struct Talk {
  std::vector<BootstrapDialogue::Next> steps;
  std::size_t used = 0;
  Error error;
  std::string noise;
  friend bool operator==(const Talk&, const Talk&) = default;
};

Talk talk(std::string_view bytes, std::size_t step) {
  using Next = BootstrapDialogue::Next;
  const AgentImage image{.bytes = "image", .sha256 = std::string(64, '7'), .machine = "x86_64"};
  BootstrapDialogue dialogue(image, nonce, "gpu1", Bootstrap::quick);
  Talk out;
  while (out.used < bytes.size()) {
    const auto part = bytes.substr(out.used, step);
    const auto did = dialogue.feed(part);
    FUZZ_CHECK(did.used > 0 && did.used <= part.size());
    out.used += did.used;
    FUZZ_CHECK(did.next != Next::need_more || did.used == part.size());
    if (did.next == Next::need_more) continue;
    out.steps.push_back(did.next);
    FUZZ_CHECK(did.next != Next::send_image || dialogue.image_sent());
    if (did.next == Next::send_image) continue;
    accepted();
    if (did.next == Next::failed) check_error(out.error = dialogue.error(), "gpu1: ");
    break;
  }
  check_error(dialogue.closed({}), "gpu1: ");
  check_error(dialogue.closed(bytes), "gpu1: ");
  FUZZ_CHECK(dialogue.noise().size() <= 4096);
  out.noise = dialogue.noise();
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = text_of(data, size).substr(1);
  FUZZ_CHECK(talk(bytes, std::size_t{data[0]} + 1) == talk(bytes, bytes.size() + 1));
  // The same as what OpenSSH's client said.
  check_error(explain_openssh({.name = "gpu1", .user = "bob"}, bytes, "exited with code 255"), "gpu1: ");
  std::string tail;
  keep_tail(tail, bytes, 100);
  keep_tail(tail, bytes.substr(0, 7), 100);
  FUZZ_CHECK(tail.size() ==
             std::min<std::size_t>(100, bytes.size() + std::min<std::size_t>(7, bytes.size())));
  return 0;
}
