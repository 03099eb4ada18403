// What the brain hears, orders and says are records: plain structs, each with a name and one
// `fields(visitor)`. By these they print, encode and compare, so that the three cannot disagree. Pure.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "host-discovery/host.h"
#include "launcher/base/error.h"
#include "launcher/base/exit_status.h"
#include "launcher/base/id.h"
#include "launcher/base/signal_set.h"
#include "launcher/base/time.h"
#include "launcher/wire/codec.h"

// Inside a struct, followed by the braces in which `v` visits each member.
#define TRAINRUN_RECORD(words)                           \
  static constexpr std::string_view record_name = words; \
  template <class V>                                     \
  void fields([[maybe_unused]] V& v)

namespace trainrun::core {

template <class T>
concept Record = requires {
  { T::record_name } -> std::convertible_to<std::string_view>;
};

// ---- types of other folders, which have no fields of their own

// A variant that is a type of its own (base/compiled_once.h).
template <class T>
concept NamedVariant = requires {
  typename T::Alternatives;
};
template <NamedVariant T>
const typename T::Alternatives& alternatives(const T& value) {
  return value;
}

template <class V>
void fields_of(Error& it, V& v) {
  v("code", it.code), v("message", it.message), v("hint", it.hint);
}
template <class V>
void fields_of(ExitStatus& it, V& v) {
  v("kind", it.kind), v("number", it.number), v("core_dumped", it.core_dumped);
  v("stage", it.stage), v("reason", it.reason);
}
template <class V>
void fields_of(Host& it, V& v) {
  v("name", it.name), v("user", it.user), v("port", it.port), v("identity", it.identity);
  v("slots", it.slots), v("slots_given", it.slots_given);
}
template <class V>
void fields_of(SignalSet& it, V& v) {
  v("bits", it.bits);
}
template <class T, class V>
requires requires(T& it, V& v) { it.fields(v); }
void fields_of(T& it, V& v) { it.fields(v); }

constexpr std::string_view to_string(ExitStatus::Kind kind) {
  switch (kind) {
    case ExitStatus::Kind::exited:
      return "exited";
    case ExitStatus::Kind::killed:
      return "killed";
    case ExitStatus::Kind::not_started:
      return "not started";
    case ExitStatus::Kind::lost:
      return "lost";
    case ExitStatus::Kind::aborted:
      return "aborted";
    case ExitStatus::Kind::deserted:
      return "deserted";
  }
  return {};
}

// ---- to bytes: those of the wire's codec, and what only records hold

class RecordEncoder {
 public:
  explicit RecordEncoder(std::string& out) : wire_(out) {}

  template <class T>
  void operator()(std::string_view, const T& value) {
    put(value);
  }

 private:
  template <class T>
  void put(const T& value) {
    if constexpr (std::is_enum_v<T> || std::integral<T>)
      wire_({}, value);
    else if constexpr (NamedVariant<T>)
      put(alternatives(value));
    else
      fields_of(const_cast<T&>(value), *this);  // as in the wire's codec, an encoder changes nothing
  }
  template <class Tag>
  void put(const Id<Tag>& id) {
    wire_({}, id);
  }
  void put(const std::string& text) { wire_({}, text); }
  void put(Duration duration) { put(std::int64_t{duration.count()}); }
  void put(Instant instant) { put(instant.time_since_epoch()); }
  template <class A, class B>
  void put(const std::pair<A, B>& both) {
    put(both.first), put(both.second);
  }
  template <class T>
  void put(const std::vector<T>& items) {
    put(std::uint64_t{items.size()});
    for (const auto& item : items) put(item);
  }
  template <class T>
  void put(const std::optional<T>& some) {
    put(some.has_value());
    if (some) put(*some);
  }
  template <class T>
  void put(const std::shared_ptr<T>& some) {
    put(some != nullptr);
    if (some) put(*some);
  }
  template <class... Ts>
  void put(const std::variant<Ts...>& one) {
    put(std::uint64_t{one.index()});
    std::visit([this](const auto& it) { put(it); }, one);
  }

  wire::Encoder wire_;
};

template <class T>
std::string encode(const T& value) {
  std::string out;
  RecordEncoder encoder(out);
  encoder({}, value);
  return out;
}

template <Record T>
bool operator==(const T& a, const T& b) {
  return encode(a) == encode(b);
}

// ---- to one line of text: `worker exited worker=3 status={kind=killed number=9 ...} ...`

class RecordPrinter {
 public:
  // Instants are told since `origin`.
  explicit RecordPrinter(std::string& out, Instant origin = {}) : out_(out), origin_(origin) {}

  template <class T>
  void operator()(std::string_view name, const T& value) {
    if (!out_.empty() && out_.back() != '{' && out_.back() != '[') out_ += ' ';
    out_.append(name) += '=';
    put(value);
  }
  template <class T>
  void record(const T& value) {
    if constexpr (Record<T>) out_ += T::record_name;
    fields_of(const_cast<T&>(value), *this);
  }

 private:
  template <class T>
  void put(const T& value) {
    if constexpr (std::same_as<T, bool>) {
      out_ += value ? "true" : "false";
    } else if constexpr (std::integral<T>) {
      out_ += std::to_string(value);
    } else if constexpr (std::is_enum_v<T>) {
      out_ += to_string(value);
    } else if constexpr (NamedVariant<T>) {
      put(alternatives(value));
    } else {
      out_ += '{';
      record(value);
      out_ += '}';
    }
  }
  template <class Tag>
  void put(const Id<Tag>& id) {
    out_ += std::to_string(id.value);
  }
  void put(const std::string& text) { out_ += '"' + text + '"'; }
  void put(Duration duration) { out_ += format_duration(duration); }
  void put(Instant instant) {
    const std::chrono::duration<double> since = instant - origin_;
    out_ += instant == Instant{} ? "none" : std::to_string(since.count()) + "s";
  }
  template <class A, class B>
  void put(const std::pair<A, B>& both) {
    put(both.first), out_ += ':', put(both.second);
  }
  template <class T>
  void put(const std::vector<T>& items) {
    out_ += '[';
    for (const auto& item : items) {
      if (out_.back() != '[') out_ += ' ';
      put(item);
    }
    out_ += ']';
  }
  template <class T>
  void put(const std::optional<T>& some) {
    some ? put(*some) : void(out_ += "none");
  }
  template <class T>
  void put(const std::shared_ptr<T>& some) {
    some ? put(*some) : void(out_ += "none");
  }
  template <class... Ts>
  void put(const std::variant<Ts...>& one) {
    std::visit([this](const auto& it) { put(it); }, one);
  }

  std::string& out_;
  const Instant origin_;
};

template <Record T>
std::string print(const T& value, Instant origin = {}) {
  std::string out;
  RecordPrinter(out, origin).record(value);
  return out;
}
template <class... Ts>
std::string print(const std::variant<Ts...>& one, Instant origin = {}) {
  return std::visit([origin](const auto& it) { return print(it, origin); }, one);
}

}  // namespace trainrun::core
