#include "rendezvous/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launcher/base/strings.h"
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

bool Store::has_all(const Keys& keys) const {
  if (keys.prefix())
    if (const auto range = ranges_.find(*keys.prefix());
        range != ranges_.end() && range->second.contains(keys.size()))
      return false;
  for (std::uint32_t i = 0; i < keys.size(); ++i)
    if (!values_.contains(keys.at(i))) return false;
  return true;
}

Store::Lacking Store::lacking(WaiterNumber waiter, std::size_t most) const {
  const auto& wish = wishes_.at(wish_of_.at(waiter));
  Lacking lacking{{}, wish.missing};
  most = std::min(most, wish.missing);
  for (auto i = wish.first; lacking.first.size() < most; ++i)
    if (wish.lacks[i]) lacking.first.push_back(i);
  return lacking;
}

void Store::want(WaiterNumber waiter, Keys keys) {
  const auto number = ++last_wish_;
  if (keys.prefix()) {
    const auto [known, fresh] = ranges_[*keys.prefix()].emplace(keys.size(), number);
    if (!fresh) {
      wishes_.at(known->second).waiters.insert(waiter);
      wish_of_[waiter] = known->second;
      return;
    }
  }
  Wish wish{std::move(keys), {}, 0, {waiter}, 0};
  wish.lacks.resize(wish.keys.size());
  for (std::uint32_t i = 0; i < wish.keys.size(); ++i) {
    const auto key = wish.keys.at(i);
    if (values_.contains(key)) continue;
    if (!wish.keys.prefix() && !wished_by_[key].emplace(number, i).second) continue;
    wish.lacks[i] = true;
    ++wish.missing;
  }
  wish_of_[waiter] = number;
  wishes_.emplace(number, std::move(wish));
}

void Store::forget(WaiterNumber waiter) {
  const auto at = wish_of_.find(waiter);
  if (at == wish_of_.end()) return;
  const auto number = at->second;
  wish_of_.erase(at);
  auto& wish = wishes_.at(number);
  wish.waiters.erase(waiter);
  if (!wish.waiters.empty()) return;
  if (const auto& prefix = wish.keys.prefix()) {
    const auto range = ranges_.find(*prefix);
    range->second.erase(wish.keys.size());
    if (range->second.empty()) ranges_.erase(range);
  } else {
    for (std::uint32_t i = 0; i < wish.keys.size(); ++i) {
      const auto wishers = wished_by_.find(wish.keys.at(i));
      if (wishers == wished_by_.end()) continue;
      wishers->second.erase(number);
      if (wishers->second.empty()) wished_by_.erase(wishers);
    }
  }
  wishes_.erase(number);
}

bool Store::fulfilled(Wish& wish, std::uint32_t index) {
  if (!wish.lacks[index]) return false;  // it was there before
  wish.lacks[index] = false;
  if (--wish.missing == 0) return true;
  while (!wish.lacks[wish.first]) ++wish.first;
  return false;
}

std::vector<Store::Granted> Store::granted_by(const std::string& key) {
  std::vector<Granted> granted;
  const auto look = [&](std::uint64_t number, std::uint32_t index) {
    auto& wish = wishes_.at(number);
    if (fulfilled(wish, index)) granted.push_back({wish.keys, wish.waiters});
  };
  if (const auto at = wished_by_.find(key); at != wished_by_.end()) {
    for (const auto& [number, index] : at->second) look(number, index);
    wished_by_.erase(at);
  }
  // As a member of ranges: each way to see a decimal number at its end ("a12" is a1+2 and a+12).
  for (std::size_t digits = 1; digits <= key.size() && digits <= max_world_digits; ++digits) {
    const auto cut = key.size() - digits;
    if (key[cut] < '0' || key[cut] > '9') break;
    if (key[cut] == '0' && digits > 1) continue;
    const auto range = ranges_.find(key.substr(0, cut));
    const auto index = parse_unsigned<std::uint32_t>(std::string_view(key).substr(cut));
    if (range == ranges_.end() || !index) continue;
    for (auto wish = range->second.upper_bound(*index); wish != range->second.end(); ++wish)
      look(wish->second, *index);
  }
  return granted;
}

const Keys& Store::wanted(WaiterNumber waiter) const { return wishes_.at(wish_of_.at(waiter)).keys; }

}  // namespace trainrun::rendezvous
