// What Horovod's workers ask of their launcher's rendezvous, as bytes: HTTP with a path of two parts,
// /SCOPE/KEY. One request a connection: both of its clients (HTTPRequest in C++, urllib in Python) read one
// reply and close. Paths are taken as they are: neither client escapes anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/base/error.h"

namespace trainrun::rendezvous {

struct HorovodRequest {
  enum class Verb : std::uint8_t { get, put, remove };
  Verb verb = Verb::get;
  std::string scope, key, value;  // value: of put
};

class HorovodRequestReader {
 public:
  static constexpr std::size_t most_head = 16u << 10;  // request line and headers
  static constexpr std::size_t most_value = 16u << 20;

  void add(std::string_view bytes);
  // The request once it is complete, or nothing until more bytes come. After an error, which says what is
  // wrong with it, the connection is of no use.
  Result<std::optional<HorovodRequest>> take();

 private:
  Result<void> read_head(std::string_view head);

  std::string buffer_;
  bool has_head_ = false;
  std::size_t looked_ = 0;  // of the head, where no end was found
  std::size_t size_ = 0;    // of the value
  HorovodRequest request_;
};

}  // namespace trainrun::rendezvous
