// What ranks can ask their server about the world, under the keys and in the types that clients insist on: a
// 16-bit number where 32 are wanted makes them hang.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "launcher/pmix/abi.h"
#include "launcher/pmix/library.h"
#include "launcher/wire/pmix_messages.h"

namespace trainrun::pmix {

// A list of keys with their values, which it owns.
class Keys {
 public:
  Keys() = default;
  Keys(const Keys&) = delete;
  Keys& operator=(const Keys&) = delete;

  void text(const char* key, std::string value);
  void flag(const char* key, bool value);
  void u16(const char* key, std::uint16_t value);
  void u32(const char* key, std::uint32_t value);
  void rank(const char* key, std::uint32_t value);
  void proc(const char* key, abi::Proc& value);  // which outlives this
  // What generate_regex and generate_ppn gave.
  void regex(const char* key, char* value, const Library& library);
  Keys& list(const char* key);  // a list under one key

  [[nodiscard]] abi::Info* items() { return items_.data(); }
  [[nodiscard]] std::size_t size() const { return items_.size(); }

 private:
  abi::Value& add(const char* key, abi::Type type);
  void close();  // lists point at what is in them, once nothing is added any more
  friend void fill_world(Keys& keys, const wire::pmix::Register& order, const Library& library);

  std::vector<abi::Info> items_;
  std::deque<std::string> texts_;
  struct List {
    std::size_t at;
    std::unique_ptr<Keys> keys;
    abi::Array array;
  };
  std::deque<List> lists_;
};

// The ranks of this host, ascending.
std::vector<std::uint32_t> local_ranks(const wire::World& world);

// All of a namespace. The World has been checked: its lists fit each other.
void fill_world(Keys& keys, const wire::pmix::Register& order, const Library& library);

}  // namespace trainrun::pmix
