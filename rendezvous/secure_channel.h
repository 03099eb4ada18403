// An authenticated, encrypted, ordered message channel over any byte stream, from a pre-shared 256-bit key.
// Bytes in, bytes out; it owns no socket. PROTOCOL.md section 2 is the specification, with what it does and
// does not protect. Besides digest.cc the one file that knows libsodium.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/base/error.h"

namespace trainrun::rendezvous {

struct Key {
  std::array<unsigned char, 32> bytes{};
  friend bool operator==(const Key&, const Key&) = default;
};

Key random_key();

class SecureChannel {
 public:
  enum class Role : std::uint8_t { client, server };

  // `limit`: bytes of the longest message accepted from the peer once it has proven that it has the key.
  // Before that not more than 64 bytes are held for it.
  SecureChannel(Role role, const Key& key, std::size_t limit);
  ~SecureChannel();
  SecureChannel(SecureChannel&&) noexcept;
  SecureChannel& operator=(SecureChannel&&) noexcept;

  // What came from the peer. An error (Code::refused for a wrong key or changed bytes, Code::protocol for
  // anything else) is final: close the connection.
  Result<void> receive(std::string_view bytes);
  // The next message from the peer; nothing when there is none yet.
  std::optional<std::string> next();
  // Only when established().
  void send(std::string_view message);
  // Bytes for the peer, since the last call. A client has some from the beginning.
  std::string take_output();
  // The peer has proven that it has the key.
  [[nodiscard]] bool established() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trainrun::rendezvous
