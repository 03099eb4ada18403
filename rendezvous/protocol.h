// Messages as bytes, records out of a byte stream, and the limits that both sides keep. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/base/error.h"
#include "launcher/base/time.h"
#include "rendezvous/messages.h"

namespace trainrun::rendezvous {

inline constexpr std::uint16_t protocol_version = 6;

// Sizes in bytes unless said otherwise.
inline constexpr std::size_t max_key = 1024;
inline constexpr std::size_t max_value = std::size_t{1} << 20;
inline constexpr std::size_t max_name = 255;                         // host, address, group
inline constexpr std::size_t max_text = 4096;                        // how, why
inline constexpr std::size_t max_operation = 80;                     // op of a pulse
inline constexpr std::size_t max_request = max_value + 64 * 1024;    // one message to the server
inline constexpr std::size_t max_reply = std::size_t{16} << 20;      // one message to a member
inline constexpr std::uint32_t max_world = 131072;                   // ranks
inline constexpr std::size_t max_keys = std::size_t{4} * max_world;  // in the store of one generation
inline constexpr std::size_t max_store = std::size_t{64} << 20;      // keys and values together
inline constexpr std::size_t max_wait_keys = 1024;                   // in one Wait
inline constexpr std::size_t max_waits = 16;                         // unanswered requests of one connection
inline constexpr std::size_t max_world_digits = 6;                   // of a number below max_world
inline constexpr std::uint32_t max_members = 4096;                   // in one reply
inline constexpr std::size_t max_missing = 1024;                     // ranks that one failure names
inline constexpr std::size_t max_prefix = max_key - 10;              // of a gather
inline constexpr std::size_t max_wanted = std::size_t{4}
                                          << 20;  // keys that one connection waits for, together
inline constexpr std::uint32_t max_wait_ms = 24u * 3600 * 1000;  // longer waits are cut to this
inline constexpr seconds pulse_counts_for{2};  // as a sign that a member is where it says; sent each second
inline constexpr seconds silent_after{3};      // of none its process stands still, or its host is cut off
inline constexpr std::uint32_t ranks_per_nccl_id = 128;
inline constexpr std::size_t nccl_id_size = 128;

// One id for each started 128 ranks of the communicator.
constexpr std::uint32_t nccl_id_count(std::uint32_t ranks) {
  return ranks / ranks_per_nccl_id + (ranks % ranks_per_nccl_id != 0 ? 1 : 0);
}

// Text of a peer, made safe for one line of a message and cut at `limit` bytes.
std::string one_line(std::string_view text, std::size_t limit);

std::string encode(const Request& request);
std::string encode_reply(std::uint32_t id, const ReplyBody& body);
// The same in two parts, of which the second is the same for all who get this body.
std::string encode_reply_head(std::uint32_t id, const ReplyBody& body);
std::string encode_reply_fields(const ReplyBody& body);
// By which members see that they have the same list of all members.
std::uint64_t digest_of(const std::vector<Member>& members);
// The whole of `bytes` is exactly one message, or Code::protocol.
Result<Request> decode_request(std::string_view bytes);
Result<Reply> decode_reply(std::string_view bytes);

// Cuts a byte stream into records of a 4-byte little-endian length and that many bytes. Holds no more than
// one record and what was fed last.
class RecordReader {
 public:
  explicit RecordReader(std::size_t limit) : limit_(limit) {}

  void set_limit(std::size_t limit) { limit_ = limit; }
  void feed(std::string_view bytes);
  // The next whole record without its length, nothing if it is not here yet, Code::protocol if it is above
  // the limit.
  Result<std::optional<std::string>> next();

 private:
  std::size_t limit_;
  std::string buffer_;
  std::size_t taken_ = 0;  // bytes at the front of buffer_ that were given out
};

// The length that goes before a record of `size` bytes.
std::string record_length(std::size_t size);

}  // namespace trainrun::rendezvous
