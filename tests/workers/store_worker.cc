// A member that keeps large values in the rendezvous: `store_worker N` puts N values of a million bytes, asks
// for all of them in one reply, and prints how many came whole.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "launcher/base/strings.h"
#include "rendezvous/client.h"
#include "rendezvous/job_key.h"

using namespace trainrun;

namespace {

constexpr std::size_t value_bytes = 1'000'000;

int fail(const char* what, const std::string& why) {
  std::printf("%s: %s\n", what, why.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const auto count = parse_unsigned<std::uint32_t>(argc > 1 ? argv[1] : "");
  const char* const address = std::getenv("TRAINRUN_RENDEZVOUS");
  const char* const key_file = std::getenv("TRAINRUN_KEY_FILE");
  if (!count || address == nullptr || key_file == nullptr) return fail("usage", "store_worker N, in a job");
  const auto key = rendezvous::read_key_file(key_file);
  if (!key) return fail("key", key.error().message);
  auto client = rendezvous::Client::connect(address, *key, Generation{1}, seconds(60));
  if (!client) return fail("connect", client.error().message);
  std::vector<std::string> keys;
  for (std::uint32_t i = 0; i < *count; ++i) {
    keys.push_back("value" + std::to_string(i));
    if (const auto put = client->put(keys.back(), std::string(value_bytes, static_cast<char>('a' + i % 26)));
        !put)
      return fail("put", put.error().message);
  }
  const auto values = client->wait(keys, seconds(60));
  if (!values) return fail("wait", values.error().message);
  std::uint32_t whole = 0;
  for (std::uint32_t i = 0; i < values->size(); ++i)
    if ((*values)[i] == std::string(value_bytes, static_cast<char>('a' + i % 26))) ++whole;
  std::printf("%u values\n", whole);
  return 0;
}
