// Records out of bytes: what RecordEncoder has written. For bytes from outside: it never reads past the end,
// and never makes more of a list than the bytes at hand could fill. Pure.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "launcher/core/job_event.h"
#include "launcher/core/record.h"

namespace trainrun {

// Beside the enums that records hold; those of the spec are in spec_record.h.
constexpr bool is_known(Code code) { return code <= Code::internal; }
constexpr bool is_known(ExitStatus::Kind kind) { return kind <= ExitStatus::Kind::deserted; }

namespace core {

constexpr bool is_known(Deadline deadline) { return deadline <= last_deadline; }

class RecordDecoder {
 public:
  explicit RecordDecoder(std::string_view bytes) : bytes_(bytes) {}

  // All was well formed and nothing is left over.
  [[nodiscard]] bool done() const { return !bad_ && bytes_.empty(); }

  // After the first fault every further value is a default one.
  template <class T>
  void operator()(std::string_view, T& value) {
    get(value);
  }

 private:
  std::uint64_t number() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && !bad_; shift += 7) {
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
      const auto raw = number();
      if (!std::in_range<std::underlying_type_t<T>>(raw) || !is_known(static_cast<T>(raw)))
        bad_ = true;
      else
        value = static_cast<T>(raw);
    } else if constexpr (std::same_as<T, bool>) {
      const auto raw = number();
      if (raw > 1) bad_ = true;
      value = raw == 1;
    } else if constexpr (std::integral<T>) {
      const auto raw = number();
      const auto wide = [raw] {
        if constexpr (std::unsigned_integral<T>)
          return raw;
        else
          return static_cast<std::int64_t>(raw >> 1) ^ -static_cast<std::int64_t>(raw & 1);
      }();
      if (!std::in_range<T>(wide)) bad_ = true;
      value = static_cast<T>(wide);
    } else if constexpr (NamedVariant<T>) {
      get(static_cast<typename T::Alternatives&>(value));
    } else {
      fields_of(value, *this);
    }
  }
  template <class Tag>
  void get(Id<Tag>& id) {
    get(id.value);
  }
  void get(std::string& text) {
    const auto size = number();
    if (size > bytes_.size()) bad_ = true;
    if (bad_) return;
    text.assign(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
  }
  void get(Duration& duration) {
    std::int64_t count = 0;
    get(count);
    duration = Duration(count);
  }
  void get(Instant& instant) {
    Duration since{};
    get(since);
    instant = Instant(since);
  }
  template <class A, class B>
  void get(std::pair<A, B>& both) {
    get(both.first), get(both.second);
  }
  template <class T>
  void get(std::vector<T>& items) {
    const auto count = number();
    if (count > bytes_.size()) bad_ = true;  // every item takes a byte at least
    items.clear();
    for (std::uint64_t i = 0; i < count && !bad_; ++i) get(items.emplace_back());
  }
  template <class T>
  void get(std::optional<T>& some) {
    bool there = false;
    get(there);
    some.reset();
    if (there && !bad_) get(some.emplace());
  }
  template <class T>
  void get(std::shared_ptr<const T>& some) {
    bool there = false;
    get(there);
    some.reset();
    if (!there || bad_) return;
    auto value = std::make_shared<T>();
    get(*value);
    some = std::move(value);
  }
  template <class... Ts>
  void get(std::variant<Ts...>& one) {
    const auto index = number();
    if (index >= sizeof...(Ts)) bad_ = true;
    if (!bad_) get_at(one, index, std::index_sequence_for<Ts...>{});
  }
  template <class Variant, std::size_t... Is>
  void get_at(Variant& one, std::uint64_t index, std::index_sequence<Is...>) {
    ((Is == index ? get(one.template emplace<Is>()) : void()), ...);
  }

  std::string_view bytes_;
  bool bad_ = false;
};

// Nothing: these are not the bytes of one T.
template <class T>
std::optional<T> decode(std::string_view bytes) {
  std::optional<T> out(std::in_place);
  RecordDecoder decoder(bytes);
  decoder({}, *out);
  if (!decoder.done()) out.reset();
  return out;
}

}  // namespace core
}  // namespace trainrun
