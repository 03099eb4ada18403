// Messages of the rendezvous protocol out of any bytes: always well formed, small numbers and few names, so
// that they have to do with each other.
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/fuzz/check.h"

namespace trainrun::fuzz {

class Filler {
 public:
  explicit Filler(Bytes& bytes) : bytes_(bytes) {}

  template <class... T>
  void operator()(T&... values) {
    (fill(values), ...);
  }

 private:
  void fill(bool& value) { value = bytes_.byte() % 2 == 1; }
  template <std::unsigned_integral T>
  void fill(T& value) {
    const auto byte = bytes_.byte();
    value = byte == 255   ? static_cast<T>(-1)
            : byte == 254 ? static_cast<T>(bytes_.byte() << 8)
                          : static_cast<T>(byte % 8);
  }
  template <class T>
  requires std::is_enum_v<T>
  void fill(T& value) { value = static_cast<T>(bytes_.byte() % (static_cast<unsigned>(last_of(T{})) + 1)); }
  void fill(std::string& value) {
    const auto byte = bytes_.byte();
    value = byte < 200 ? std::string("k") + static_cast<char>('0' + byte % 4)
                       : std::string(byte < 250 ? byte - 200u : 128u << (byte - 250), 'x');
  }
  template <class T>
  void fill(std::optional<T>& value) {
    if (bytes_.byte() % 2 == 1) fill(value.emplace());
  }
  template <class T>
  void fill(std::vector<T>& values) {
    const auto byte = bytes_.byte();
    values.resize(byte == 255 ? 2000 : byte % 5);
    for (auto& value : values) fill(value);
  }
  template <class T>
  requires std::is_class_v<T>
  void fill(T& value) { T::fields(value, *this); }

  Bytes& bytes_;
};

// The alternative of `variant` that a byte names, filled.
template <class Variant, std::size_t index = 0>
void fill_variant(std::size_t wanted, Variant& variant, Filler& filler) {
  if constexpr (index < std::variant_size_v<typename Variant::Alternatives>) {
    if (wanted % std::variant_size_v<typename Variant::Alternatives> != index)
      return fill_variant<Variant, index + 1>(wanted, variant, filler);
    filler(variant.template emplace<index>());
  }
}

}  // namespace trainrun::fuzz
