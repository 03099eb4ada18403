#include "rendezvous/service.h"

#include <fmt/format.h>

#include <utility>
#include <variant>

#include "rendezvous/protocol.h"

namespace trainrun::rendezvous {

Service::Service(Key key, Callbacks callbacks) : key_(key), callbacks_(std::move(callbacks)) {}

void Service::opened(std::uint32_t connection, Instant now, Peer peer) {
  if (sessions_.size() >= max_connections || sessions_.contains(connection))
    return callbacks_.close(connection);
  SecureChannel channel(SecureChannel::Role::server, key_, max_request);
  if (peer == Peer::neighbour) {
    sessions_.emplace(connection, Session{std::move(channel), std::nullopt});
    return;
  }
  if (handshakes_.size() >= max_handshakes) drop(handshakes_.begin()->second, "too many", now);
  const auto prove_by = now + handshake_time;
  sessions_.emplace(connection, Session{std::move(channel), prove_by});
  handshakes_.emplace(prove_by, connection);
}

void Service::received(std::uint32_t connection, std::string_view bytes, Instant now) {
  const auto at = sessions_.find(connection);
  if (at == sessions_.end()) return;
  auto& session = at->second;
  const auto taken = session.channel.receive(bytes);
  if (auto output = session.channel.take_output(); !output.empty())
    callbacks_.send(connection, std::move(output));
  if (session.prove_by && session.channel.established()) {
    handshakes_.erase({*session.prove_by, connection});
    session.prove_by.reset();
  }
  serve(connection, now);
  if (!taken && sessions_.contains(connection)) drop(connection, taken.error().message, now);
}

// A peer that asks for much and reads nothing must not fill our memory: what it asks further stays in its
// channel, which holds no more than the transport read at once. A broken channel takes no answers.
void Service::serve(std::uint32_t connection, Instant now) {
  for (auto at = sessions_.find(connection); at != sessions_.end(); at = sessions_.find(connection)) {
    auto& channel = at->second.channel;
    if (channel.established() && unsent(connection) >= pause_above) return;
    const auto message = channel.next();
    if (!message) return;
    const auto request = decode_request(*message);
    if (!request) return drop(connection, request.error().message, now);
    deliver(table_.apply(connection, *request, now));
  }
}

void Service::drained(std::uint32_t connection, Instant now) { serve(connection, now); }

void Service::closed(std::uint32_t connection, Instant now) {
  gone(connection, "its connection closed and it had not left", now);
}

void Service::drop(std::uint32_t connection, const std::string& why, Instant now) {
  callbacks_.close(connection);
  gone(connection, "the server closed its connection: " + why, now);
}

void Service::gone(std::uint32_t connection, std::string how, Instant now) {
  const auto at = sessions_.find(connection);
  if (at == sessions_.end()) return;
  if (at->second.prove_by) handshakes_.erase({*at->second.prove_by, connection});
  sessions_.erase(at);
  deliver(table_.closed(connection, now, std::move(how)));
}

std::size_t Service::unsent(std::uint32_t connection) const {
  return callbacks_.unsent ? callbacks_.unsent(connection) : 0;
}

void Service::begin_generation(Generation generation, World world, Instant now) {
  world.generation = generation.value;
  deliver(table_.begin(std::move(world), now));
  told_over_ = false;
}

void Service::dismiss(WorkerId worker) { deliver(table_.dismiss(worker)); }

void Service::announce(Generation generation, Change change, std::unordered_set<std::uint32_t> stopping,
                       std::string text) {
  deliver(table_.announce(generation, change, std::move(stopping), std::move(text)));
}

void Service::member_lost(Generation generation, Rank rank, std::string host, std::string how, Instant) {
  deliver(table_.lost(generation, rank, std::move(host), std::move(how)));
}

void Service::member_failed(Generation generation, Rank rank, std::string host, std::string how) {
  deliver(table_.failed(generation, rank, std::move(host), std::move(how)));
}

void Service::end_generation(Generation generation, std::string reason, Instant, Verdict::Kind kind) {
  deliver(table_.end(generation, std::move(reason), kind));
}

std::optional<Instant> Service::next_deadline() const {
  auto next = table_.next_deadline();
  if (!handshakes_.empty() && (!next || handshakes_.begin()->first < *next))
    next = handshakes_.begin()->first;
  return next;
}

void Service::advance(Instant now) {
  while (!handshakes_.empty() && handshakes_.begin()->first <= now)
    drop(handshakes_.begin()->second, "too late", now);
  deliver(table_.advance(now));
}

const std::string& Service::encoded(const std::shared_ptr<const ReplyBody>& body) {
  if (body_ != body) {
    body_ = body;
    encoded_body_ = encode_reply_fields(*body);
  }
  return encoded_body_;
}

// Values that were waited for may come all at once, to one that reads slowly: they can be asked for again.
std::string Service::reply_for(const Outgoing& item) {
  auto bytes = encode_reply_head(item.request, *item.body) + encoded(item.body);
  if (!std::holds_alternative<Values>(*item.body) || unsent(item.connection) + bytes.size() <= max_unsent)
    return bytes;
  const auto message = fmt::format(
      "{} bytes of replies wait for this connection to read them; ask again then", unsent(item.connection));
  return encode_reply(item.request, Failure{FailureKind::limit, message, table_.generation().value, {}, {}});
}

void Service::deliver(Outbox outbox) {
  for (const auto& item : outbox) {
    const auto at = sessions_.find(item.connection);
    // A channel that a wrong byte broke may have brought good requests before it; it takes no answer.
    if (at == sessions_.end() || !at->second.channel.established()) continue;
    at->second.channel.send(reply_for(item));
    callbacks_.send(item.connection, at->second.channel.take_output());
  }
  body_.reset();
  encoded_body_.clear();
  for (const auto& event : table_.take_events())
    if (callbacks_.event) callbacks_.event(event);
  if (table_.verdict() && !told_over_) {
    told_over_ = true;
    if (callbacks_.over) callbacks_.over(*table_.verdict());
  }
}

}  // namespace trainrun::rendezvous
