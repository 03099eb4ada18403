// What an elastic rank of Horovod is told through its notification service, as bytes: that the hosts change.
// A connection carries one request and one reply, each as
//
//   HMAC-SHA256 of the body, by the service's key | length of the body, 4 bytes little-endian | body
//
// The bodies are pickles. Ours is a template, which all releases of Horovod and of Python read; of the reply
// only its digest and its class's name matter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/base/error.h"

namespace trainrun::rendezvous {

struct HorovodEndpoint {
  std::uint32_t address = 0;  // IPv4, the first number in the highest byte
  std::uint16_t port = 0;
  friend bool operator==(const HorovodEndpoint&, const HorovodEndpoint&) = default;
};

// Where a rank can be notified.
struct HorovodService {
  static constexpr std::size_t most_endpoints = 256;
  std::vector<HorovodEndpoint> endpoints;
  std::string key;
};

// The value of worker_addresses: base64 of a pickle of ({interface: [(ip, port), ...], ...}, key).
Result<HorovodService> read_horovod_service(std::string_view value);

// Of Horovod's HostUpdateResult. The third, 1, says that hosts go and none comes: see horovod_notices.h.
enum class HorovodChange : std::uint8_t { added = 2, mixed = 3 };
// `stamp`: a rank hears what is greater than the last one that it has heard of.
std::string hosts_updated(const std::string& key, std::int64_t stamp, HorovodChange change);

enum class HorovodReply : std::uint8_t { incomplete, acknowledged, wrong };
constexpr std::size_t longest_horovod_reply = 4096;
HorovodReply read_horovod_reply(const std::string& key, std::string_view bytes);

}  // namespace trainrun::rendezvous
