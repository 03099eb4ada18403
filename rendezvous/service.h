// The rendezvous server without its sockets: many connections of bytes in, bytes out. Each must first prove
// that it has the job's key; before that it costs a few hundred bytes and nobody hears of it.
//
// Not thread-safe. The callbacks must not call back into the service; the transport drops a connection's
// later bytes once `close` was asked for it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "launcher/base/id.h"
#include "launcher/base/time.h"
#include "rendezvous/messages.h"
#include "rendezvous/secure_channel.h"
#include "rendezvous/table.h"

namespace trainrun::rendezvous {

class Service {
 public:
  struct Callbacks {
    std::function<void(std::uint32_t connection, std::string bytes)> send;
    // After everything that was sent; closed() need not be called for it any more.
    std::function<void(std::uint32_t connection)> close;
    // The current generation is over; once a generation, after the members were told. May be empty.
    std::function<void(const Verdict&)> over{};
    // May be empty.
    std::function<void(const Event&)> event{};
    // Bytes that were sent to the connection and that its peer has not taken yet. Empty: always none.
    std::function<std::size_t(std::uint32_t connection)> unsent{};
  };
  static constexpr Duration handshake_time = seconds(10);
  static constexpr std::size_t max_connections = 524288;
  // Of strangers: above, the oldest unproven connection of a stranger is closed.
  static constexpr std::size_t max_handshakes = 1024;
  // A peer that does not read: from this many bytes unsent on its further requests wait, which the transport
  // had better not even read. What it asked before may still be answered, up to `max_unsent`.
  static constexpr std::size_t pause_above = std::size_t{16} << 20;
  static constexpr std::size_t max_unsent = std::size_t{64} << 20;

  Service(Key key, Callbacks callbacks);

  // Who stands behind a connection before it has proven the key. A neighbour runs as the job's user, which a
  // door has asked the kernel: it has no time limit and is never closed to make room for others. What bounds
  // neighbours is their doors' limit and max_connections.
  enum class Peer : std::uint8_t { stranger, neighbour };
  void opened(std::uint32_t connection, Instant now, Peer peer = Peer::stranger);
  void received(std::uint32_t connection, std::string_view bytes, Instant now);
  void closed(std::uint32_t connection, Instant now);
  // Less than `pause_above` is unsent again.
  void drained(std::uint32_t connection, Instant now);

  // `world` as in Table::begin; its generation is `generation`.
  void begin_generation(Generation generation, World world, Instant now);
  void member_lost(Generation generation, Rank rank, std::string host, std::string how, Instant now);
  void member_failed(Generation generation, Rank rank, std::string host, std::string how);
  void member_ended_well(Generation generation, Rank rank) { deliver(table_.ended_well(generation, rank)); }
  void end_generation(Generation generation, std::string reason, Instant now,
                      Verdict::Kind kind = Verdict::Kind::ended);
  void dismiss(WorkerId worker);
  void announce(Generation generation, Change change, std::unordered_set<std::uint32_t> stopping,
                std::string text);

  [[nodiscard]] std::optional<Instant> next_deadline() const;
  void advance(Instant now);

  [[nodiscard]] const Table& table() const { return table_; }
  [[nodiscard]] std::size_t connections() const { return sessions_.size(); }

 private:
  struct Session {
    SecureChannel channel;
    std::optional<Instant> prove_by;  // nothing: it has proven, or is a neighbour
  };

  void deliver(Outbox outbox);
  void serve(std::uint32_t connection, Instant now);
  void drop(std::uint32_t connection, const std::string& why, Instant now);
  void gone(std::uint32_t connection, std::string how, Instant now);
  [[nodiscard]] std::size_t unsent(std::uint32_t connection) const;
  [[nodiscard]] std::string reply_for(const Outgoing& item);
  const std::string& encoded(const std::shared_ptr<const ReplyBody>& body);

  Key key_;
  Callbacks callbacks_;
  Table table_;
  std::unordered_map<std::uint32_t, Session> sessions_;
  std::set<std::pair<Instant, std::uint32_t>> handshakes_;
  bool told_over_ = false;
  // The last body that was sent and its bytes, since many waiters get one.
  std::shared_ptr<const ReplyBody> body_;
  std::string encoded_body_;
};

}  // namespace trainrun::rendezvous
