// Values as bytes and back: little-endian integers, counted strings and lists. One `fields` function a struct
// serves both directions, so that they cannot disagree. PROTOCOL.md section 4 is the specification.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace trainrun::rendezvous {

class Writer {
 public:
  template <class... T>
  void operator()(const T&... values) {
    (write(values), ...);
  }
  [[nodiscard]] std::string take() { return std::move(bytes_); }

 private:
  void write(bool value) { bytes_.push_back(value ? '\1' : '\0'); }
  template <std::unsigned_integral T>
  void write(T value) {
    for (std::size_t i = 0; i < sizeof(T); ++i)
      bytes_.push_back(static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i) & 0xff));
  }
  template <class T>
  requires std::is_enum_v<T>
  void write(T value) { write(static_cast<std::uint8_t>(value)); }
  void write(const std::string& value) {
    write(static_cast<std::uint32_t>(value.size()));
    bytes_ += value;
  }
  template <class T>
  void write(const std::optional<T>& value) {
    write(value.has_value());
    if (value) write(*value);
  }
  template <class T>
  void write(const std::vector<T>& values) {
    write(static_cast<std::uint32_t>(values.size()));
    for (const T& value : values) write(value);
  }
  template <class T>
  requires std::is_class_v<T>
  void write(const T& value) { T::fields(value, *this); }

  std::string bytes_;
};

// Never reads past the end and never reserves what has not arrived. After the first wrong byte ok() is false
// for good and the values are not to be used.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  template <class... T>
  void operator()(T&... values) {
    (read(values), ...);
  }
  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] bool finished() const { return ok_ && rest_.empty(); }

 private:
  void read(bool& value) {
    std::uint8_t byte = 0;
    read(byte);
    if (byte > 1) ok_ = false;
    value = byte == 1;
  }
  template <std::unsigned_integral T>
  void read(T& value) {
    if (!ok_ || rest_.size() < sizeof(T)) {
      ok_ = false;
      return;
    }
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i)
      sum |= static_cast<std::uint64_t>(static_cast<unsigned char>(rest_[i])) << (8 * i);
    value = static_cast<T>(sum);
    rest_.remove_prefix(sizeof(T));
  }
  // An enum that travels has a function last_of(E) beside it: the greatest value that may come in.
  template <class T>
  requires std::is_enum_v<T>
  void read(T& value) {
    std::uint8_t byte = 0;
    read(byte);
    if (byte > static_cast<std::uint8_t>(last_of(T{}))) ok_ = false;
    if (ok_) value = static_cast<T>(byte);
  }
  void read(std::string& value) {
    std::uint32_t size = 0;
    read(size);
    if (!ok_ || size > rest_.size()) {
      ok_ = false;
      return;
    }
    value.assign(rest_.substr(0, size));
    rest_.remove_prefix(size);
  }
  template <class T>
  void read(std::optional<T>& value) {
    bool present = false;
    read(present);
    if (ok_ && present) read(value.emplace());
  }
  template <class T>
  void read(std::vector<T>& values) {
    std::uint32_t count = 0;
    read(count);
    for (std::uint32_t i = 0; ok_ && i < count; ++i) read(values.emplace_back());
  }
  template <class T>
  requires std::is_class_v<T>
  void read(T& value) { T::fields(value, *this); }

  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace trainrun::rendezvous
