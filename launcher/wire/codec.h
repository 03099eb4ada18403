// Values to bytes and back. One `fields(visitor)` of a struct serves encoding, decoding and printing, so they
// cannot disagree. Numbers are LEB128 varints (signed ones zigzag), strings and lists carry their length
// first.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "launcher/base/id.h"

namespace trainrun::wire {

class Encoder {
 public:
  explicit Encoder(std::string& out) : out_(out) {}

  template <class T>
  void operator()(std::string_view, const T& value) {
    put(value);
  }

 private:
  void number(std::uint64_t value) {
    while (value >= 0x80) {
      out_.push_back(static_cast<char>(value | 0x80));
      value >>= 7;
    }
    out_.push_back(static_cast<char>(value));
  }
  template <class T>
  void put(const T& value) {
    if constexpr (std::is_enum_v<T>) {
      number(static_cast<std::uint64_t>(value));
    } else if constexpr (std::unsigned_integral<T>) {
      number(value);
    } else if constexpr (std::signed_integral<T>) {
      const auto wide = static_cast<std::int64_t>(value);
      number((static_cast<std::uint64_t>(wide) << 1) ^ static_cast<std::uint64_t>(wide >> 63));
    } else {
      const_cast<T&>(value).fields(*this);  // fields() serves both directions; an encoder changes nothing
    }
  }
  void put(const std::string& value) {
    number(value.size());
    out_ += value;
  }
  void put(std::string_view value) {
    number(value.size());
    out_ += value;
  }
  template <class Tag>
  void put(const Id<Tag>& id) {
    number(id.value);
  }
  template <class A, class B>
  void put(const std::pair<A, B>& both) {
    put(both.first);
    put(both.second);
  }
  template <class T>
  void put(const std::vector<T>& items) {
    number(items.size());
    for (const auto& item : items) put(item);
  }

  std::string& out_;
};

// Never reads past the end and never allocates more than the bytes at hand could fill. After the first fault
// every further read gives a default value; ask done() at the end.
class Decoder {
 public:
  explicit Decoder(std::string_view bytes) : bytes_(bytes) {}

  // All was well formed and nothing is left over.
  [[nodiscard]] bool done() const { return !bad_ && bytes_.empty(); }

  template <class T>
  void operator()(std::string_view, T& value) {
    get(value);
  }

 private:
  std::uint64_t number() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (bytes_.empty()) break;
      const auto byte = static_cast<unsigned char>(bytes_.front());
      bytes_.remove_prefix(1);
      if (shift == 63 && byte > 1) break;
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    bad_ = true;
    return 0;
  }
  template <class T>
  void get(T& value) {
    if constexpr (std::is_enum_v<T>) {
      // An enum that travels has a function is_known(E) beside it.
      const auto raw = number();
      value = static_cast<T>(raw);
      if (!std::in_range<std::underlying_type_t<T>>(raw) || !is_known(value)) bad_ = true;
    } else if constexpr (std::same_as<T, bool>) {
      const auto raw = number();
      if (raw > 1) bad_ = true;
      value = raw == 1;
    } else if constexpr (std::unsigned_integral<T>) {
      const auto raw = number();
      if (!std::in_range<T>(raw)) bad_ = true;
      value = static_cast<T>(raw);
    } else if constexpr (std::signed_integral<T>) {
      const auto raw = number();
      const auto wide = static_cast<std::int64_t>(raw >> 1) ^ -static_cast<std::int64_t>(raw & 1);
      if (!std::in_range<T>(wide)) bad_ = true;
      value = static_cast<T>(wide);
    } else {
      value.fields(*this);
    }
  }
  void get(std::string& value) {
    const auto view = raw_string();
    value.assign(view);
  }
  void get(std::string_view& value) { value = raw_string(); }
  template <class Tag>
  void get(Id<Tag>& id) {
    get(id.value);
  }
  template <class A, class B>
  void get(std::pair<A, B>& both) {
    get(both.first);
    get(both.second);
  }
  template <class T>
  void get(std::vector<T>& items) {
    const auto count = number();
    items.clear();
    if (count > bytes_.size()) {  // every item takes a byte at least
      bad_ = true;
      return;
    }
    items.reserve(std::min<std::uint64_t>(count, 64));  // not what it only claims to have
    for (std::uint64_t i = 0; i < count && !bad_; ++i) get(items.emplace_back());
  }
  std::string_view raw_string() {
    const auto size = number();
    if (bad_ || size > bytes_.size()) {
      bad_ = true;
      return {};
    }
    const auto view = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return view;
  }

  std::string_view bytes_;
  bool bad_ = false;
};

}  // namespace trainrun::wire
