// The small blobs of one generation, and who waits for which of them. Pure; bounded by the protocol's limits.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "launcher/base/error.h"

namespace trainrun::rendezvous {

using WaiterNumber = std::uint64_t;

// Keys in an order: a list, or prefix0 ... prefix<count-1>, which is not written out: a request of a kilobyte
// may name 16384 long keys so.
class Keys {
 public:
  explicit Keys(std::vector<std::string> list)
      : list_(std::move(list)), count_(static_cast<std::uint32_t>(list_.size())) {}
  Keys(std::string prefix, std::uint32_t count) : prefix_(std::move(prefix)), count_(count) {}

  [[nodiscard]] std::uint32_t size() const { return count_; }
  [[nodiscard]] std::string at(std::uint32_t index) const {
    return prefix_ ? *prefix_ + std::to_string(index) : list_[index];
  }
  [[nodiscard]] const std::optional<std::string>& prefix() const { return prefix_; }

 private:
  std::vector<std::string> list_;
  std::optional<std::string> prefix_;
  std::uint32_t count_ = 0;
};

class Store {
 public:
  [[nodiscard]] const std::string* find(const std::string& key) const;
  // Replaces what was there. An Error when the store would grow above its limits; then nothing has changed.
  Result<void> put(const std::string& key, std::string value);

  // `waiter` wants all of `keys`, which do not all exist. The same prefix and count are kept once for all who
  // want them.
  void want(WaiterNumber waiter, Keys keys);
  void forget(WaiterNumber waiter);
  struct Granted {
    Keys keys;
    std::set<WaiterNumber> waiters;
  };
  // After a put of `key`: the waiters that now have all their keys. They are still to be forgotten.
  [[nodiscard]] std::vector<Granted> granted_by(const std::string& key);

  [[nodiscard]] const Keys& wanted(WaiterNumber waiter) const;
  // What the waiter still lacks: indices into wanted(), the first `most` of them, and how many there are.
  struct Lacking {
    std::vector<std::uint32_t> first;
    std::size_t count = 0;
  };
  [[nodiscard]] Lacking lacking(WaiterNumber waiter, std::size_t most) const;
  // Costs nothing when others wait for the same range of keys, which then lacks some.
  [[nodiscard]] bool has_all(const Keys& keys) const;

 private:
  struct Wish {  // keys that somebody waits for
    Keys keys;
    std::vector<bool> lacks;  // by index; of a key that a list names twice only the first
    std::size_t missing = 0;
    std::set<WaiterNumber> waiters;
    std::uint32_t first = 0;  // no index below it lacks its key
  };
  // Has the wish all its keys, now that the one at `index` is there?
  bool fulfilled(Wish& wish, std::uint32_t index);

  std::unordered_map<std::string, std::string> values_;
  std::size_t bytes_ = 0;
  std::uint64_t last_wish_ = 0;
  std::map<std::uint64_t, Wish> wishes_;
  std::unordered_map<std::string, std::map<std::uint32_t, std::uint64_t>> ranges_;  // prefix, count -> wish
  // A missing key of a list -> wishes, and where it stands in each.
  std::unordered_map<std::string, std::map<std::uint64_t, std::uint32_t>> wished_by_;
  std::unordered_map<WaiterNumber, std::uint64_t> wish_of_;
};

}  // namespace trainrun::rendezvous
