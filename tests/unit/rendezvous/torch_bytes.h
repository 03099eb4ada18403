// What torch's TCPStore clients send, for tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainrun::rendezvous::torch_bytes {

template <class Number>
std::string number(Number value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof value; ++i)
    bytes += static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i));
  return bytes;
}

inline std::string text(const std::string& value) { return number(std::uint64_t{value.size()}) + value; }

inline std::string texts(const std::vector<std::string>& values) {
  auto bytes = number(std::uint64_t{values.size()});
  for (const auto& value : values) bytes += text(value);
  return bytes;
}

inline std::string op(int of) { return std::string(1, static_cast<char>(of)); }

// The dialect of torch from 2.2 on.
inline const std::string greeting = op(0) + number(std::uint32_t{0x3C85F7CE});
inline std::string set(const std::string& key, const std::string& value) {
  return op(1) + text(key) + text(value);
}
inline std::string compare_set(const std::string& key, const std::string& expected,
                               const std::string& desired) {
  return op(2) + text(key) + text(expected) + text(desired);
}
inline std::string get(const std::string& key) { return op(3) + text(key); }
inline std::string add(const std::string& key, std::int64_t by) { return op(4) + text(key) + number(by); }
inline std::string check(const std::vector<std::string>& keys) { return op(5) + texts(keys); }
inline std::string wait(const std::vector<std::string>& keys) { return op(6) + texts(keys); }
inline std::string delete_key(const std::string& key) { return op(8) + text(key); }
inline const std::string cancel_wait = op(12);

}  // namespace trainrun::rendezvous::torch_bytes
