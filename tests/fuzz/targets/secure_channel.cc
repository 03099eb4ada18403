// Two ends of a rendezvous channel with somebody between them: what arrives is what was sent, in order, up to
// where a byte was changed. The member's end hears the server's side only here.
#include "rendezvous/secure_channel.h"

#include "rendezvous/protocol.h"
#include "tests/fuzz/check.h"

using namespace trainrun;
using namespace trainrun::fuzz;
using namespace trainrun::rendezvous;

namespace {

constexpr std::size_t limit = 100;

struct End {
  SecureChannel channel;
  std::vector<std::string> sent{};  // by this end
  std::size_t heard = 0;            // of what the other sent
  bool changed = false;             // what comes to it
  bool broken = false;
  std::string under_way{};  // to the other
};

void carry(End& from, End& to, Bytes& bytes) {
  from.under_way += from.channel.take_output();
  auto part = from.under_way.substr(0, std::size_t{bytes.byte()} + 1);
  from.under_way.erase(0, part.size());
  const auto how = bytes.byte();
  if (how >= 250 && !part.empty()) {
    to.changed = true;
    if (how == 250) part.pop_back();
    if (how == 251) part += part;
    if (how == 252) part = std::string(bytes.take(64)) + part;
    if (how > 252) part[bytes.byte() % part.size()] ^= static_cast<char>(1 << (bytes.byte() % 8));
  }
  if (to.broken) return;
  const auto good = to.channel.receive(part);
  if (!good) {
    check_error(good.error());
    to.broken = true;
  }
  while (const auto message = to.channel.next()) {
    FUZZ_CHECK(to.heard < from.sent.size() && *message == from.sent[to.heard]);
    FUZZ_CHECK(message->size() <= limit);
    ++to.heard;
    accepted();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes bytes(data, size);
  Key key{}, other{};
  other.bytes[7] = 1;
  const bool same = bytes.byte() % 8 != 0;
  End client{SecureChannel(SecureChannel::Role::client, key, limit)};
  End server{SecureChannel(SecureChannel::Role::server, same ? key : other, limit)};
  for (int moves = 0; !bytes.empty() && moves < 100; ++moves) {
    const auto what = bytes.byte();
    auto& from = what % 2 == 0 ? client : server;
    auto& to = what % 2 == 0 ? server : client;
    if (what % 4 < 2 && from.channel.established() && !from.broken) {
      from.sent.emplace_back(bytes.take(bytes.byte() % limit));
      from.channel.send(from.sent.back());
    }
    carry(from, to, bytes);
    const bool untouched = !client.changed && !server.changed;
    FUZZ_CHECK(same || (!client.channel.established() && !server.channel.established()));
    FUZZ_CHECK(!same || !untouched || (!client.broken && !server.broken));
  }
  return 0;
}
