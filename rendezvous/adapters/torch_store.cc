#include "rendezvous/adapters/torch_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace trainrun::rendezvous {
namespace {

using Op = TorchRequest::Op;

// The answers to WAIT, CANCEL_WAIT and CHECK.
constexpr char stopped_waiting = 0, wait_cancelled = 1;
constexpr char ready = 0, not_ready = 1;

template <class Number>
void put(std::string& to, Number value) {
  for (std::size_t i = 0; i < sizeof value; ++i)
    to += static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i));
}

void put_value(std::string& to, const std::string& value) {
  put(to, std::uint64_t{value.size()});
  to += value;
}

template <class Number>
std::string number(Number value) {
  std::string bytes;
  put(bytes, value);
  return bytes;
}

// What a value in a queue costs beside its bytes: empty ones must not be free.
constexpr std::size_t queued_cost = 32;

std::string full() {
  return fmt::format("the store holds {} MiB, and no more", TorchStore::most_bytes >> 20);
}

std::string of_value(const std::string& value) {
  std::string bytes;
  put_value(bytes, value);
  return bytes;
}

const std::string& value_of(const std::unordered_map<std::string, std::string>& values,
                            const std::string& key) {
  static const std::string none;
  const auto it = values.find(key);
  return it == values.end() ? none : it->second;
}

}  // namespace

bool TorchStore::Space::has(const std::string& key) const {
  if (values.contains(key)) return true;
  const auto queue = queues.find(key);
  return queue != queues.end() && !queue->second.empty();
}

void TorchStore::begin(Generation) {
  space_ = std::make_shared<Space>();
  arrivals_ = {};
  claims_ = {};
}

std::optional<std::uint32_t> TorchStore::awaits_beyond(std::uint32_t size) const {
  for (const auto& [key, waiting] : space_->waiting)
    if (const auto member = member_of_key(key); member && *member >= size && !waiting.empty()) return member;
  return std::nullopt;
}

void TorchStore::claim(const Client& client, const std::string& key) {
  if (!client.rank || client.space != space_) return;
  if (const auto clash = claims_.put(*client.rank, key); clash && callbacks_.clash) callbacks_.clash(*clash);
}

void TorchStore::opened(std::uint32_t connection, std::optional<Rank> rank) {
  clients_.insert_or_assign(connection, Client{space_, rank});
  if (rank)
    arrivals_.ranks.insert(*rank);
  else
    ++arrivals_.unknown;
}

void TorchStore::received(std::uint32_t connection, std::string_view bytes) {
  const auto it = clients_.find(connection);
  if (it == clients_.end()) return;
  it->second.requests.add(bytes);
  serve(connection);
}

void TorchStore::closed(std::uint32_t connection) {
  const auto it = clients_.find(connection);
  if (it == clients_.end()) return;
  stop_waiting(connection, it->second);
  clients_.erase(it);
}

bool TorchStore::refuse(std::uint32_t connection, std::string why) {
  closed(connection);
  callbacks_.close(connection, std::move(why));
  return false;
}

void TorchStore::serve(std::uint32_t connection) {
  while (callbacks_.unsent(connection) < pause_above) {
    const auto it = clients_.find(connection);
    if (it == clients_.end()) return;
    auto& client = it->second;
    // Clients of torch 1.13 cannot cancel a wait: they ask something else, and would take a late answer to
    // the wait for the answer to that.
    if (!client.requests.empty()) stop_waiting(connection, client);
    auto request = client.requests.next();
    if (!request) {
      refuse(connection, request.error().message);
      return;
    }
    if (!request->has_value()) return;
    if (!answer(connection, client, **request)) return;
  }
}

// False: the connection is dropped.
bool TorchStore::answer(std::uint32_t connection, Client& client, TorchRequest& request) {
  auto& space = *client.space;
  const auto reply = [&](std::string bytes) {
    callbacks_.send(connection, std::move(bytes));
    return true;
  };
  const auto kept = [&](bool fits) { return fits || refuse(connection, full()); };
  switch (request.op) {
    case Op::ping:
      return reply(number(static_cast<std::uint32_t>(request.number)));
    case Op::set:
      claim(client, request.keys[0]);
      return kept(store(space, request.keys[0], std::move(request.values[0])));
    case Op::append:
      return append(connection, space, request);
    case Op::multi_set:
      for (std::size_t i = 0; i < request.keys.size(); ++i) {
        claim(client, request.keys[i]);
        if (!kept(store(space, request.keys[i], std::move(request.values[i])))) return false;
      }
      return true;
    case Op::compare_set:
      return kept(compare_and_set(connection, space, request));
    case Op::add:
      return add(connection, space, request);
    case Op::get:
      return reply(of_value(value_of(space.values, request.keys[0])));
    case Op::multi_get: {
      std::string bytes;
      for (const auto& key : request.keys) {
        put_value(bytes, value_of(space.values, key));
        if (bytes.size() > TorchRequests::most_request)
          return refuse(connection, "it asked for too much at once");
      }
      return reply(std::move(bytes));
    }
    case Op::check: {
      const bool all = std::all_of(request.keys.begin(), request.keys.end(),
                                   [&](const std::string& key) { return space.has(key); });
      return reply(std::string(1, all ? ready : not_ready));
    }
    case Op::wait:
      wait(connection, client, request.keys);
      return true;
    case Op::cancel_wait:
      stop_waiting(connection, client);
      return reply(std::string(1, wait_cancelled));
    case Op::count_keys:
      return reply(number(std::int64_t(space.values.size())));
    case Op::delete_key: {
      const auto it = space.values.find(request.keys[0]);
      const bool found = it != space.values.end();
      if (found) {
        space.bytes -= it->first.size() + it->second.size();
        space.values.erase(it);
      }
      return reply(number(std::int64_t{found}));
    }
    case Op::queue_push:
      return kept(push(space, request.keys[0], std::move(request.values[0])));
    case Op::queue_pop:
      pop(connection, space, request.keys[0]);
      return true;
    case Op::queue_length: {
      const auto queue = space.queues.find(request.keys[0]);
      return reply(number(std::int64_t(queue == space.queues.end() ? 0 : queue->second.size())));
    }
  }
  return true;
}

bool TorchStore::store(Space& space, const std::string& key, std::string value) {
  const auto it = space.values.find(key);
  const auto before = it == space.values.end() ? 0 : it->first.size() + it->second.size();
  const auto after = space.bytes - before + key.size() + value.size();
  if (after > most_bytes) return false;
  space.bytes = after;
  space.values[key] = std::move(value);
  wake(space, key, false);
  return true;
}

// In place: a log that grows line by line is not copied for each of them.
bool TorchStore::append(std::uint32_t connection, Space& space, const TorchRequest& request) {
  const auto &key = request.keys[0], &more = request.values[0];
  const auto it = space.values.find(key);
  if (it == space.values.end()) return store(space, key, more) || refuse(connection, full());
  if (it->second.size() + more.size() > most_appended)
    return refuse(connection, fmt::format("it appends to a value of more than {} MiB", most_appended >> 20));
  if (space.bytes + more.size() > most_bytes) return refuse(connection, full());
  space.bytes += more.size();
  it->second += more;
  wake(space, key, false);
  return true;
}

// A counter is text, as torch's own server keeps it: clients also GET it.
bool TorchStore::add(std::uint32_t connection, Space& space, const TorchRequest& request) {
  const auto& key = request.keys[0];
  std::int64_t before = 0;
  if (const auto it = space.values.find(key); it != space.values.end()) {
    const auto& text = it->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), before);
    if (error != std::errc() || end != text.data() + text.size())
      return refuse(connection, "it adds to a value that is no number");
  }
  // Unsigned: a sum that does not fit wraps, and is not undefined.
  const auto sum = static_cast<std::int64_t>(static_cast<std::uint64_t>(before) +
                                             static_cast<std::uint64_t>(request.number));
  if (!store(space, key, std::to_string(sum))) return refuse(connection, full());
  callbacks_.send(connection, number(sum));
  return true;
}

// Of a key that does not exist the expected value is told as if it were there: torch relies on that.
bool TorchStore::compare_and_set(std::uint32_t connection, Space& space, TorchRequest& request) {
  const auto& key = request.keys[0];
  const auto& expected = request.values[0];
  const auto it = space.values.find(key);
  const bool found = it != space.values.end();
  if (found ? it->second == expected : expected.empty()) {
    if (!store(space, key, std::move(request.values[1]))) return false;
    callbacks_.send(connection, of_value(value_of(space.values, key)));
  } else {
    callbacks_.send(connection, of_value(found ? it->second : expected));
  }
  return true;
}

void TorchStore::wait(std::uint32_t connection, Client& client, const std::vector<std::string>& keys) {
  for (const auto& key : keys) {
    if (!client.space->has(key) && client.missing.insert(key).second)
      client.space->waiting[key].push_back(connection);
  }
  if (client.missing.empty()) callbacks_.send(connection, std::string(1, stopped_waiting));
}

void TorchStore::stop_waiting(std::uint32_t connection, Client& client) {
  auto& waiting = client.space->waiting;
  for (const auto& key : client.missing) {
    const auto it = waiting.find(key);
    std::erase(it->second, connection);
    if (it->second.empty()) waiting.erase(it);
  }
  client.missing.clear();
}

// All who wait for the key, or the first alone: what comes into a queue is for one.
void TorchStore::wake(Space& space, const std::string& key, bool one) {
  const auto it = space.waiting.find(key);
  if (it == space.waiting.end()) return;
  auto& waiting = it->second;
  const auto end = one ? waiting.begin() + 1 : waiting.end();
  const std::vector<std::uint32_t> woken(waiting.begin(), end);
  waiting.erase(waiting.begin(), end);
  if (waiting.empty()) space.waiting.erase(it);
  for (const auto connection : woken) {
    auto& client = clients_.at(connection);
    client.missing.erase(key);
    if (client.missing.empty()) callbacks_.send(connection, std::string(1, stopped_waiting));
  }
}

bool TorchStore::push(Space& space, const std::string& key, std::string value) {
  const auto size = queued_cost + value.size();
  if (space.bytes + size > most_bytes) return false;
  space.bytes += size;
  space.queues[key].push_back(std::move(value));
  wake(space, key, true);
  return true;
}

void TorchStore::pop(std::uint32_t connection, Space& space, const std::string& key) {
  const auto it = space.queues.find(key);
  std::string bytes;
  put(bytes, std::int64_t(it == space.queues.end() ? 0 : it->second.size()));
  if (it != space.queues.end()) {
    put_value(bytes, it->second.front());
    space.bytes -= queued_cost + it->second.front().size();
    it->second.pop_front();
    if (it->second.empty()) space.queues.erase(it);
  }
  callbacks_.send(connection, std::move(bytes));
}

}  // namespace trainrun::rendezvous
