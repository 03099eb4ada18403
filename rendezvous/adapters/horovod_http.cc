#include "rendezvous/adapters/horovod_http.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "launcher/base/strings.h"

namespace trainrun::rendezvous {
namespace {

using Verb = HorovodRequest::Verb;

constexpr std::string_view found = "200 OK", missing = "404 Not Found", bad = "400 Bad Request",
                           full = "507 Insufficient Storage";
// What a value costs beside its bytes: empty ones must not be free.
constexpr std::size_t value_cost = 64;

// "12" is an address; "rank_12" and "012" are not.
std::optional<std::uint32_t> member_of(std::string_view key) {
  const auto number = parse_unsigned<std::uint32_t>(key);
  return number && (key.size() == 1 || key.front() != '0') ? number : std::nullopt;
}

std::size_t cost(const std::string& scope, const std::string& key, const std::string& value) {
  return value_cost + scope.size() + key.size() + value.size();
}

std::string too_much() {
  return fmt::format("its ranks have put {} MiB, and no more is kept", HorovodHttp::most_bytes >> 20);
}

}  // namespace

HorovodHttp::HorovodHttp(Callbacks callbacks)
    : callbacks_(std::move(callbacks)),
      rounds_(
          {[this](std::uint32_t connection, const std::string& place) { answer(connection, found, place); },
           callbacks_.joined, callbacks_.formed, callbacks_.waits, callbacks_.hopeless}) {}

void HorovodHttp::begin(const std::vector<Seat>& world) {
  space_ = std::make_shared<Space>();
  arrivals_.clear();
  gone_.clear();
  size_ = world.size();
  space_->scopes["global"].size = world.size();
  for (const auto& seat : world) {
    ++space_->scopes["local_" + seat.host].size;
    ++space_->scopes[fmt::format("cross_{}", seat.local_rank)].size;
  }
  rounds_.begin(world);
  any_came_ = !rounds_.asking().empty();
}

std::set<Rank> HorovodHttp::arrivals() const {
  auto ranks = rounds_.asking();
  ranks.insert(arrivals_.begin(), arrivals_.end());
  return ranks;
}

// Asked at each end of a rank, also of jobs that are not Horovod's.
bool HorovodHttp::awaits(Rank rank) const {
  if (!any_came_ || arrivals_.size() >= size_) return false;
  const auto came = arrivals();
  return !came.empty() && !came.contains(rank);
}

void HorovodHttp::opened(std::uint32_t connection) { clients_.insert_or_assign(connection, Client{space_}); }

void HorovodHttp::closed(std::uint32_t connection) {
  const auto it = clients_.find(connection);
  if (it == clients_.end()) return;
  if (const auto& name = it->second.waits_in; !name.empty()) {
    auto& scopes = it->second.space->scopes;
    const auto scope = scopes.find(name);
    scope->second.waiting.erase(connection);
    if (scope->second.unused()) scopes.erase(scope);
  }
  if (it->second.asks) rounds_.closed(connection);
  forget(connection);
}

void HorovodHttp::forget(std::uint32_t connection) {
  const auto it = clients_.find(connection);
  if (it == clients_.end()) return;
  held_ -= it->second.held;
  clients_.erase(it);
}

void HorovodHttp::left(Rank rank) {
  gone_.insert(rank);
  tell_deserters();
  if (!std::exchange(space_->holding, false)) return;  // nobody waits for a mesh any more
  for (auto& [name, scope] : space_->scopes) release(scope);
}

void HorovodHttp::received(std::uint32_t connection, std::string_view bytes) {
  const auto it = clients_.find(connection);
  if (it == clients_.end() || !it->second.waits_in.empty() || it->second.asks) return;
  auto& client = it->second;
  client.reader.add(bytes);
  client.held += bytes.size();
  held_ += bytes.size();
  auto request = client.reader.take();
  if (!request) return answer(connection, bad, {}, request.error().message);
  if (!request->has_value()) {
    if (client.space->bytes + held_ > most_bytes) answer(connection, full, {}, too_much());
    return;
  }
  held_ -= std::exchange(client.held, 0);
  const auto space = client.space;
  switch ((*request)->verb) {
    case Verb::get:
      return get(connection, client, **request);
    case Verb::put:
      return put(connection, *space, std::move(**request));
    case Verb::remove:
      remove(*space, **request);
      return answer(connection, found);
  }
}

void HorovodHttp::get(std::uint32_t connection, Client& client, const HorovodRequest& request) {
  auto& space = *client.space;
  if (request.scope == "rank_and_size") {
    client.asks = any_came_ = true;
    rounds_.ask(connection, request.key);
    return tell_deserters();
  }
  const bool of_a_set = request.scope.find("_process_set_hash_") != std::string::npos;
  auto it = space.scopes.find(request.scope);
  if (it == space.scopes.end() && !of_a_set) return answer(connection, missing);
  const bool held = space.holding && member_of(request.key) &&
                    (it == space.scopes.end() ||
                     (it->second.size != 0 ? !it->second.complete()
                                           : of_a_set && !it->second.values.contains(request.key)));
  if (!held) {
    static const Scope none;
    return answer_from(it == space.scopes.end() ? none : it->second, request.key, connection);
  }
  if (it == space.scopes.end()) it = space.scopes.try_emplace(request.scope).first;
  it->second.waiting.emplace(connection, request.key);
  client.waits_in = request.scope;
}

void HorovodHttp::put(std::uint32_t connection, Space& space, HorovodRequest request) {
  // As if nothing were replaced: then there is nothing to undo.
  const auto price = cost(request.scope, request.key, request.value);
  if (space.bytes + price > most_bytes) return answer(connection, full, {}, too_much());
  auto& scope = space.scopes[request.scope];
  const auto before = scope.values.find(request.key);
  const bool is_new = before == scope.values.end();
  if (!is_new) space.bytes -= cost(request.scope, request.key, before->second);
  space.bytes += price;
  scope.values[request.key] = std::move(request.value);
  const auto member = member_of(request.key);
  if (is_new && member && *member < scope.size) ++scope.present;
  if (&space == space_.get() && member && callbacks_.meets)
    callbacks_.meets(connection, scope.values.at(request.key));
  if (&space == space_.get() && request.scope == "global") {
    const auto named = request.key.starts_with("rank_") ? member_of(request.key.substr(5)) : member;
    if (named && *named < scope.size) {
      arrivals_.insert(Rank{*named});
      any_came_ = true;
    }
  }
  if (scope.complete())
    release(scope);
  else if (scope.size == 0)
    wake(scope, request.key);
  answer(connection, found);
  // It may be told of a world that has begun since.
  if (request.scope == "worker_addresses") {
    const auto worker = rounds_.registered(request.key);
    if (worker != WorkerId{} && callbacks_.listens) callbacks_.listens(worker, scope.values.at(request.key));
  }
  if (&space == space_.get() && request.scope == "global" && member && *member < scope.size)
    rounds_.arrived(Rank{*member});
  tell_deserters();
}

void HorovodHttp::tell_deserters() {
  if (gone_.empty() || !any_came_ || arrivals_.size() >= size_ || !callbacks_.deserted) return;
  const auto came = arrivals();
  if (came.empty()) return;
  for (const auto rank : std::exchange(gone_, {}))
    if (!came.contains(rank)) callbacks_.deserted(rank);
}

// It comes behind a barrier of its mesh: all have read what they need.
void HorovodHttp::remove(Space& space, const HorovodRequest& request) {
  const auto it = space.scopes.find(request.scope);
  if (it == space.scopes.end()) return;
  auto& scope = it->second;
  const auto member = member_of(request.key);
  const auto drop = [&](const std::string& key) {
    const auto value = scope.values.find(key);
    if (value == scope.values.end()) return false;
    space.bytes -= cost(request.scope, key, value->second);
    scope.values.erase(value);
    return true;
  };
  const bool was_there = drop(request.key);
  if (member) drop("rank_" + request.key);
  if (member && was_there && *member < scope.size) --scope.present;
  const bool of_world = scope.size != 0;
  if (scope.unused()) space.scopes.erase(it);
  constexpr std::string_view cross = "cross_";
  if (&space != space_.get() || !of_world || !was_there || !member || !request.scope.starts_with(cross))
    return;
  const auto local_rank = parse_unsigned<std::uint32_t>(request.scope.substr(cross.size()));
  if (local_rank) rounds_.initialised(*local_rank, *member);  // the last mesh of hvd.init
}

void HorovodHttp::release(Scope& scope) {
  for (const auto& [connection, key] : std::exchange(scope.waiting, {})) answer_from(scope, key, connection);
}

void HorovodHttp::wake(Scope& scope, const std::string& key) {
  std::vector<std::uint32_t> woken;
  std::erase_if(scope.waiting, [&](const auto& it) {
    if (it.second != key) return false;
    woken.push_back(it.first);
    return true;
  });
  for (const auto connection : woken) answer_from(scope, key, connection);
}

void HorovodHttp::answer_from(const Scope& scope, const std::string& key, std::uint32_t connection) {
  const auto value = scope.values.find(key);
  if (value == scope.values.end())
    answer(connection, missing);
  else
    answer(connection, found, value->second);
}

// The C++ client knows the length by this spelling alone, takes no 1xx, and keeps surplus bytes.
void HorovodHttp::answer(std::uint32_t connection, std::string_view status, const std::string& value,
                         std::string why) {
  forget(connection);
  callbacks_.send(connection,
                  fmt::format("HTTP/1.0 {}\r\nContent-Length: {}\r\n\r\n{}", status, value.size(), value));
  callbacks_.close(connection, std::move(why));
}

}  // namespace trainrun::rendezvous
