// The small blobs of one generation, and who waits for which of them. Pure; bounded by the protocol's limits.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "launcher/base/error.h"

namespace trainrun::rendezvous {

using WaiterNumber = std::uint64_t;

class Store {
 public:
  [[nodiscard]] const std::string* find(const std::string& key) const;
  // Replaces what was there. An Error when the store would grow above its limits; then nothing has changed.
  Result<void> put(const std::string& key, std::string value);

  // `waiter` wants all of `keys`, which do not all exist. Those who want under the same non-empty name want
  // the same keys, which are kept once: for all but the first `keys` is not looked at.
  void want(WaiterNumber waiter, const std::string& shared, std::vector<std::string> keys);
  [[nodiscard]] bool somebody_wants(const std::string& shared) const { return shared_.contains(shared); }
  void forget(WaiterNumber waiter);
  struct Granted {
    std::vector<std::string> keys;
    std::vector<WaiterNumber> waiters;
  };
  // After a put of `key`: the waiters that now have all their keys. They are still to be forgotten.
  [[nodiscard]] std::vector<Granted> granted_by(const std::string& key);

  [[nodiscard]] const std::vector<std::string>& wanted(WaiterNumber waiter) const;
  [[nodiscard]] bool has_all(const std::vector<std::string>& keys) const;
  // Indices into `keys` of those that do not exist.
  [[nodiscard]] std::vector<std::uint32_t> lacking(const std::vector<std::string>& keys) const;

 private:
  struct Wish {  // one list of keys that somebody waits for
    std::string shared;
    std::vector<std::string> keys;
    std::size_t missing = 0;
    std::vector<WaiterNumber> waiters;
  };

  std::unordered_map<std::string, std::string> values_;
  std::size_t bytes_ = 0;
  std::uint64_t last_wish_ = 0;
  std::map<std::uint64_t, Wish> wishes_;
  std::map<std::string, std::uint64_t> shared_;
  std::unordered_map<std::string, std::vector<std::uint64_t>> wished_by_;  // missing key -> wishes
  std::unordered_map<WaiterNumber, std::uint64_t> wish_of_;
};

}  // namespace trainrun::rendezvous
