// What dialects of others need of cryptography: keyed digests, and the text that carries bytes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace trainrun::rendezvous {

constexpr std::size_t digest_size = 32;

// HMAC-SHA256, as its 32 bytes.
std::string keyed_digest(std::string_view key, std::string_view bytes);
// In a time that says nothing about where they differ.
bool same_digest(std::string_view one, std::string_view other);
// The standard alphabet, with its padding and without line breaks.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace trainrun::rendezvous
