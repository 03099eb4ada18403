#include "rendezvous/adapters/horovod_notice.h"

#include <fmt/format.h>

#include <limits>
#include <optional>

#include "launcher/base/strings.h"
#include "rendezvous/adapters/pickle.h"
#include "rendezvous/digest.h"

namespace trainrun::rendezvous {
namespace {

using namespace std::string_view_literals;

constexpr std::size_t key_size = 32;

// Two-complement, the lowest byte first.
std::string little_endian(std::int64_t value, std::size_t size) {
  std::string out(size, '\0');
  for (std::size_t i = 0; i < size; ++i)
    out[i] = static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i) & 0xff);
  return out;
}

std::optional<std::uint32_t> address_of(std::string_view text) {
  const auto numbers = split(text, '.');
  if (numbers.size() != 4) return std::nullopt;
  std::uint32_t address = 0;
  for (const auto number : numbers) {
    const auto byte = parse_unsigned<std::uint8_t>(number);
    if (!byte) return std::nullopt;
    address = address << 8 | *byte;
  }
  return address;
}

Error unexpected_shape() {
  return {Code::protocol, "a pickle that is not ({interface: [(address, port), ...]}, key)"};
}

std::optional<HorovodEndpoint> endpoint_of(const Pickle& pickle, const Pickle::Value& pair) {
  if (pair.kind != Pickle::Kind::tuple || pair.parts.size() != 2) return std::nullopt;
  const auto &address = pickle.at(pair.parts[0]), &port = pickle.at(pair.parts[1]);
  if (address.kind != Pickle::Kind::text || port.kind != Pickle::Kind::number) return std::nullopt;
  const auto number = address_of(address.text);
  if (!number || port.number < 1 || port.number > std::numeric_limits<std::uint16_t>::max())
    return std::nullopt;
  return HorovodEndpoint{*number, static_cast<std::uint16_t>(port.number)};
}

}  // namespace

Result<HorovodService> read_horovod_service(std::string_view value) {
  if (value.size() > Pickle::most_bytes) return fail(Code::protocol, "an address that is too long");
  const auto bytes = from_base64(value);
  if (!bytes) return fail(Code::protocol, "an address that is not base64");
  const auto pickle = Pickle::read(*bytes);
  if (!pickle) return tl::unexpected(pickle.error());
  using Kind = Pickle::Kind;
  const auto& root = pickle->root();
  if (root.kind != Kind::tuple || root.parts.size() != 2) return tl::unexpected(unexpected_shape());
  const auto &interfaces = pickle->at(root.parts[0]), &key = pickle->at(root.parts[1]);
  if (interfaces.kind != Kind::dict || key.kind != Kind::bytes || key.text.size() != key_size)
    return tl::unexpected(unexpected_shape());
  HorovodService service{{}, key.text};
  for (std::size_t i = 1; i < interfaces.parts.size(); i += 2) {
    const auto& pairs = pickle->at(interfaces.parts[i]);
    if (pairs.kind != Kind::list) return tl::unexpected(unexpected_shape());
    for (const auto pair : pairs.parts) {
      const auto endpoint = endpoint_of(*pickle, pickle->at(pair));
      if (!endpoint) return tl::unexpected(unexpected_shape());
      if (service.endpoints.size() == HorovodService::most_endpoints)
        return fail(Code::protocol, fmt::format("more than {} addresses", HorovodService::most_endpoints));
      service.endpoints.push_back(*endpoint);
    }
  }
  return service;
}

std::string hosts_updated(const std::string& key, std::int64_t stamp, HorovodChange change) {
  const bool is_short =
      stamp >= std::numeric_limits<std::int32_t>::min() && stamp <= std::numeric_limits<std::int32_t>::max();
  // PROTO 2, GLOBAL, EMPTY_TUPLE, NEWOBJ, EMPTY_DICT, MARK, two names with their values, SETITEMS, BUILD,
  // STOP.
  std::string body(
      "\x80\x02"
      "chorovod.runner.elastic.worker\nHostsUpdatedRequest\n"
      ")\x81}("sv);
  body += "X\x09\0\0\0timestamp"sv;
  body += is_short ? 'J' + little_endian(stamp, 4) : "\x8a\x08" + little_endian(stamp, 8);
  body += "X\x03\0\0\0resK"sv;
  body += static_cast<char>(change);
  body += "ub.";
  return keyed_digest(key, body) + little_endian(static_cast<std::int64_t>(body.size()), 4) + body;
}

HorovodReply read_horovod_reply(const std::string& key, std::string_view bytes) {
  constexpr std::size_t head = digest_size + 4;
  if (bytes.size() < head) return HorovodReply::incomplete;
  std::size_t size = 0;
  for (std::size_t i = 0; i < 4; ++i)
    size |= static_cast<std::size_t>(static_cast<unsigned char>(bytes[digest_size + i])) << (8 * i);
  if (size > longest_horovod_reply - head) return HorovodReply::wrong;
  if (bytes.size() < head + size) return HorovodReply::incomplete;
  const auto body = bytes.substr(head);
  const bool ours = body.size() == size && same_digest(bytes.substr(0, digest_size), keyed_digest(key, body));
  return ours && body.find("AckResponse") != std::string_view::npos ? HorovodReply::acknowledged
                                                                    : HorovodReply::wrong;
}

}  // namespace trainrun::rendezvous
