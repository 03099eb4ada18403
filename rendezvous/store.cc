#include "rendezvous/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "rendezvous/protocol.h"

namespace trainrun::rendezvous {

const std::string* Store::find(const std::string& key) const {
  const auto at = values_.find(key);
  return at == values_.end() ? nullptr : &at->second;
}

Result<void> Store::put(const std::string& key, std::string value) {
  const auto at = values_.find(key);
  const std::size_t freed = at == values_.end() ? 0 : at->second.size();
  const std::size_t added = value.size() + (at == values_.end() ? key.size() : 0);
  if (at == values_.end() && values_.size() >= max_keys)
    return fail(Code::protocol, fmt::format("the store has {} keys already, which is its limit", max_keys));
  if (bytes_ - freed + added > max_store)
    return fail(Code::protocol,
                fmt::format("the store would hold more than its limit of {} bytes", max_store));
  bytes_ = bytes_ - freed + added;
  values_[key] = std::move(value);
  return {};
}

bool Store::has_all(const std::vector<std::string>& keys) const {
  return std::all_of(keys.begin(), keys.end(), [&](const auto& key) { return values_.contains(key); });
}

std::vector<std::uint32_t> Store::lacking(const std::vector<std::string>& keys) const {
  std::vector<std::uint32_t> indices;
  for (std::uint32_t i = 0; i < keys.size(); ++i)
    if (!values_.contains(keys[i])) indices.push_back(i);
  return indices;
}

void Store::want(WaiterNumber waiter, const std::string& shared, std::vector<std::string> keys) {
  if (const auto known = shared_.find(shared); known != shared_.end()) {
    wishes_.at(known->second).waiters.push_back(waiter);
    wish_of_[waiter] = known->second;
    return;
  }
  const auto number = ++last_wish_;
  Wish wish{shared, std::move(keys), 0, {waiter}};
  for (const auto index : lacking(wish.keys)) {
    auto& wishers = wished_by_[wish.keys[index]];
    if (!wishers.empty() && wishers.back() == number) continue;  // a key named twice counts once
    wishers.push_back(number);
    ++wish.missing;
  }
  if (!shared.empty()) shared_[shared] = number;
  wish_of_[waiter] = number;
  wishes_.emplace(number, std::move(wish));
}

void Store::forget(WaiterNumber waiter) {
  const auto at = wish_of_.find(waiter);
  if (at == wish_of_.end()) return;
  const auto number = at->second;
  wish_of_.erase(at);
  auto& wish = wishes_.at(number);
  std::erase(wish.waiters, waiter);
  if (!wish.waiters.empty()) return;
  for (const auto& key : wish.keys) {
    const auto wishers = wished_by_.find(key);
    if (wishers == wished_by_.end()) continue;
    std::erase(wishers->second, number);
    if (wishers->second.empty()) wished_by_.erase(wishers);
  }
  if (!wish.shared.empty()) shared_.erase(wish.shared);
  wishes_.erase(number);
}

std::vector<Store::Granted> Store::granted_by(const std::string& key) {
  std::vector<Granted> granted;
  const auto at = wished_by_.find(key);
  if (at == wished_by_.end()) return granted;
  for (const auto number : at->second) {
    auto& wish = wishes_.at(number);
    if (--wish.missing == 0) granted.push_back({wish.keys, wish.waiters});
  }
  wished_by_.erase(at);
  return granted;
}

const std::vector<std::string>& Store::wanted(WaiterNumber waiter) const {
  return wishes_.at(wish_of_.at(waiter)).keys;
}

}  // namespace trainrun::rendezvous
