// Short texts: the job's key in its file, the address of a rendezvous, TRAINRUN_FAULT.
#include <fmt/format.h>

#include "launcher/base/fault.h"
#include "launcher/base/strings.h"
#include "rendezvous/job_key.h"
#include "rendezvous/socket.h"
#include "tests/fuzz/check.h"

using namespace trainrun;
using namespace trainrun::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto text = text_of(data, size);
  if (const auto key = rendezvous::parse_key(text, "dir/key")) {
    accepted();
    const auto digits = hex({reinterpret_cast<const char*>(key->bytes.data()), key->bytes.size()});
    FUZZ_CHECK(rendezvous::parse_key(digits + "\n", "again") == *key);
  } else {
    check_error(key.error(), "the key file 'dir/key'");
  }
  if (const auto address = rendezvous::split_address(text)) {
    accepted();
    FUZZ_CHECK(!address->first.empty() && address->first.size() <= 255);
    const bool v6 = address->first.find_first_of(":[]") != std::string::npos;
    const auto again =
        fmt::format("{}{}{}:{}", v6 ? "[" : "", address->first, v6 ? "]" : "", address->second);
    FUZZ_CHECK(rendezvous::split_address(again) == *address);
  } else {
    check_error(address.error());
  }
  fault::configure(text);
  fault::configure({});
  return 0;
}
