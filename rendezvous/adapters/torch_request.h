// What a client of torch's TCPStore asks, as bytes. Torch has renumbered its requests twice:
//
//   legacy   torch up to 1.13 and 2.0: no greeting, SET is 0
//   current  torch from 2.2 on: the client greets with VALIDATE and a magic number, SET is 1
//
// The releases between (2.1) speak like `legacy` as far as request 6; above that numbers mean other things in
// each of them, and are refused. All numbers are little-endian. Source: TCPStore.cpp and TCPStoreBackend.hpp
// of PyTorch 1.13 and 2.15; the limits are those of its own server.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/base/error.h"

namespace trainrun::rendezvous {

struct TorchRequest {
  enum class Op : std::uint8_t {
    ping,
    set,
    compare_set,
    get,
    add,
    check,
    wait,
    count_keys,
    delete_key,
    append,
    multi_get,
    multi_set,
    cancel_wait,
    queue_push,
    queue_pop,
    queue_length,
  };
  Op op = Op::ping;
  std::vector<std::string> keys{};
  std::vector<std::string> values{};  // compare_set: expected, desired
  std::int64_t number = 0;            // add: the difference; ping: what to send back
};

class TorchRequests {
 public:
  static constexpr std::size_t most_key = 8u << 10;
  static constexpr std::size_t most_value = 8u << 20;
  static constexpr std::size_t most_keys = 128u << 10;
  static constexpr std::size_t most_request = 64u << 20;

  void add(std::string_view bytes) { buffer_ += bytes; }
  // The next complete request, or nothing until more bytes come. After an error the connection is of no use.
  Result<std::optional<TorchRequest>> next();
  [[nodiscard]] bool empty() const { return buffer_.size() == start_; }

 private:
  enum class Dialect : std::uint8_t { unknown, legacy, current };
  bool knows_dialect();

  std::string buffer_;
  std::size_t start_ = 0;   // of the request that is being read
  std::size_t needed_ = 1;  // bytes from there, before it is worth another look
  Dialect dialect_ = Dialect::unknown;
};

}  // namespace trainrun::rendezvous
