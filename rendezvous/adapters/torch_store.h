// A server of torch's TCPStore, without its sockets: what unmodified PyTorch programs meet at when they are
// told that their launcher has a store (TORCHELASTIC_USE_AGENT_STORE). Each generation has keys of its own,
// since torch from 2.2 on uses the same names again; a connection keeps those of the generation in which it
// came.
//
// Not thread-safe. The callbacks must not call back.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "launcher/base/id.h"
#include "rendezvous/adapters/torch_claims.h"
#include "rendezvous/adapters/torch_request.h"

namespace trainrun::rendezvous {

class TorchStore {
 public:
  struct Callbacks {
    std::function<void(std::uint32_t connection, std::string bytes)> send;
    // Of a connection that broke the rules; closed() need not be called for it any more.
    std::function<void(std::uint32_t connection, std::string why)> close;
    // Bytes that were sent to the connection and that its peer has not taken yet.
    std::function<std::size_t(std::uint32_t connection)> unsent;
    // Two ranks of the current generation have come as the same one; once. May be empty.
    std::function<void(const TorchClash&)> clash{};
  };
  // From this many unsent bytes on what a peer asks waits until drained().
  static constexpr std::size_t pause_above = std::size_t{16} << 20;
  // Of one generation: keys and values together.
  static constexpr std::size_t most_bytes = std::size_t{512} << 20;

  // A value that grows by APPEND: a GET has to answer it as a whole.
  static constexpr std::size_t most_appended = TorchRequests::most_request;

  explicit TorchStore(Callbacks callbacks) : callbacks_(std::move(callbacks)) {}

  void begin(Generation generation);
  // `rank`: whose process it is, if that is known.
  void opened(std::uint32_t connection, std::optional<Rank> rank);
  void received(std::uint32_t connection, std::string_view bytes);
  void drained(std::uint32_t connection) { serve(connection); }
  void closed(std::uint32_t connection);

  // Of the current generation: who came so far, gone again or not.
  struct Arrivals {
    std::set<Rank> ranks;
    std::uint32_t unknown = 0;  // connections of processes that are no rank's
  };
  [[nodiscard]] const Arrivals& arrivals() const { return arrivals_; }
  // Somebody of the current generation waits for a member that no group of `size` has.
  [[nodiscard]] std::optional<std::uint32_t> awaits_beyond(std::uint32_t size) const;

 private:
  struct Space {
    std::unordered_map<std::string, std::string> values;
    std::unordered_map<std::string, std::deque<std::string>> queues;
    std::unordered_map<std::string, std::vector<std::uint32_t>>
        waiting;  // connections, in the order they came
    std::size_t bytes = 0;

    [[nodiscard]] bool has(const std::string& key) const;
  };
  struct Client {
    std::shared_ptr<Space> space;
    std::optional<Rank> rank{};
    TorchRequests requests{};
    std::unordered_set<std::string> missing{};  // what it waits for
  };

  void serve(std::uint32_t connection);
  // False: the connection was refused, and is forgotten.
  bool answer(std::uint32_t connection, Client& client, TorchRequest& request);
  // False: there is no room.
  bool store(Space& space, const std::string& key, std::string value);
  bool append(std::uint32_t connection, Space& space, const TorchRequest& request);
  bool add(std::uint32_t connection, Space& space, const TorchRequest& request);
  bool compare_and_set(std::uint32_t connection, Space& space, TorchRequest& request);
  void wait(std::uint32_t connection, Client& client, const std::vector<std::string>& keys);
  void stop_waiting(std::uint32_t connection, Client& client);
  void wake(Space& space, const std::string& key, bool one);
  bool push(Space& space, const std::string& key, std::string value);
  void pop(std::uint32_t connection, Space& space, const std::string& key);
  bool refuse(std::uint32_t connection, std::string why);  // false
  void claim(const Client& client, const std::string& key);

  Callbacks callbacks_;
  std::shared_ptr<Space> space_ = std::make_shared<Space>();
  Arrivals arrivals_;
  TorchClaims claims_;
  std::map<std::uint32_t, Client> clients_;
};

}  // namespace trainrun::rendezvous
