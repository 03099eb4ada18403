#include "rendezvous/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <iterator>
#include <mutex>
#include <utility>

#include "rendezvous/protocol.h"
#include "rendezvous/socket.h"

namespace trainrun::rendezvous {
namespace {

// What the network and a busy server may take on top of the time that a call may wait.
constexpr Duration usual_slack = seconds(10);
constexpr Duration retry_every = milliseconds(100);

tl::unexpected<Failure> failure(FailureKind kind, std::string message) {
  return tl::unexpected(Failure{kind, std::move(message), 0, {}, {}});
}

std::uint32_t wait_ms(Duration within) {
  const auto count = std::chrono::ceil<milliseconds>(within).count();
  return static_cast<std::uint32_t>(std::clamp<long long>(count, 0, max_wait_ms));
}

// Nothing can tell us when a server begins to listen, or has room for one more, so this one wait has no
// event. False: the deadline is nearer.
bool pause_before(Instant deadline) {
  if (std::chrono::steady_clock::now() + retry_every >= deadline) return false;
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable().wait_for(lock, retry_every);
  return true;
}

// Not there yet, full, or too many came at once: the server may take us the next time.
bool worth_another_try(const Error& error) {
  return error.code == Code::unreachable || error.code == Code::lost;
}

}  // namespace

struct Client::State {
  State(Socket the_socket, SecureChannel the_channel, Generation the_generation, std::string the_address)
      : socket(std::move(the_socket)),
        channel(std::move(the_channel)),
        generation(the_generation),
        address(std::move(the_address)) {}

  tl::unexpected<Failure> broken(const Error& error) {
    const auto kind = error.code == Code::refused || error.code == Code::protocol ? FailureKind::refused
                                                                                  : FailureKind::disconnected;
    dead = failure(kind, fmt::format("rendezvous at {}: {}", address, error.message)).value();
    return tl::unexpected(*dead);
  }
  // Sends what the channel has for the peer.
  Result<void> flush(Instant& deadline) { return socket.send(channel.take_output(), deadline); }
  Result<void> read_some(Instant& deadline) {
    auto bytes = socket.receive(deadline);
    if (!bytes) return tl::unexpected(bytes.error());
    return channel.receive(*bytes);
  }

  Socket socket;
  SecureChannel channel;
  Generation generation;
  std::string address;
  Duration slack = usual_slack;
  std::uint32_t last_id = 0;
  std::optional<std::uint32_t> watching, listening;  // open questions of hear()
  std::optional<Failure> dead;                       // after the first failure of the connection itself
};

Client::Client(std::unique_ptr<State> state) : state_(std::move(state)) {}
Client::~Client() = default;
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;

Answer<Client> Client::connect(const std::string& address, const Key& key, Generation generation,
                               Duration within) {
  auto deadline = std::chrono::steady_clock::now() + within;
  for (;;) {
    auto socket = Socket::connect(address, deadline);
    if (!socket) {
      if (worth_another_try(socket.error()) && pause_before(deadline)) continue;
      return failure(FailureKind::disconnected, "rendezvous: " + socket.error().message);
    }
    auto state = std::make_unique<State>(
        std::move(*socket), SecureChannel(SecureChannel::Role::client, key, max_reply), generation, address);
    auto proven = state->flush(deadline);
    while (proven && !state->channel.established()) proven = state->read_some(deadline);
    if (proven) proven = state->flush(deadline);
    if (proven) return Client(std::move(state));
    if (!worth_another_try(proven.error()) || !pause_before(deadline)) return state->broken(proven.error());
  }
}

// Sends the request and returns its id.
template <class Body>
Answer<std::uint32_t> Client::ask(Body body, Instant deadline) {
  auto& s = *state_;
  if (s.dead) return tl::unexpected(*s.dead);
  const auto id = ++s.last_id;
  const auto bytes = encode(Request{id, s.generation.value, std::move(body)});
  if (bytes.size() > max_request)
    return failure(FailureKind::limit,
                   fmt::format("a request of {} bytes is above the limit of {}", bytes.size(), max_request));
  s.channel.send(bytes);
  if (const auto sent = s.flush(deadline); !sent) return s.broken(sent.error());
  return id;
}

template <class Wanted, class Body>
Answer<Wanted> Client::call(Body body, Duration within) {
  auto& s = *state_;
  auto deadline = std::chrono::steady_clock::now() + within + s.slack;
  const auto id = ask(std::move(body), deadline);
  if (!id) return tl::unexpected(id.error());
  for (;;) {
    while (const auto message = s.channel.next()) {
      auto reply = decode_reply(*message);
      if (!reply) return s.broken(reply.error());
      if (reply->id != *id) continue;  // of a call that gave up earlier
      if (auto* wanted = std::get_if<Wanted>(&reply->body)) return std::move(*wanted);
      if (auto* refusal = std::get_if<Failure>(&reply->body)) return tl::unexpected(std::move(*refusal));
      return s.broken({Code::protocol, "the server answered another question", {}});
    }
    if (const auto read = s.read_some(deadline); !read) return s.broken(read.error());
  }
}

Answer<Joined> Client::join(std::optional<Rank> rank, std::string host, std::string address, Duration within,
                            WorkerId worker, bool elastic) {
  std::optional<std::uint32_t> number;
  if (rank) number = rank->value;
  return call<Joined>(
      Join{number, std::move(host), std::move(address), wait_ms(within), elastic, worker.value}, within);
}

Answer<std::vector<Member>> Client::members(Rank first, std::uint32_t count) {
  return call<Members>(FetchMembers{first.value, count}).map([](Members m) { return m.members; });
}

Answer<World> Client::world(const Joined& joined) {
  World world{joined.generation, joined.size, joined.job, {}};
  while (world.members.size() < joined.size) {
    const auto first = static_cast<std::uint32_t>(world.members.size());
    auto some = members(Rank{first}, std::min(max_members, joined.size - first));
    if (!some) return tl::unexpected(std::move(some.error()));
    if (some->empty()) return state_->broken({Code::protocol, "a world has members for all its ranks", {}});
    std::move(some->begin(), some->end(), std::back_inserter(world.members));
  }
  if (digest_of(world.members) != joined.digest)
    return state_->broken({Code::protocol, "the members are not those that joined", {}});
  return world;
}

Answer<void> Client::leave() {
  return call<Done>(Leave{false}).map([](const Done&) {});
}

Answer<void> Client::leave_at_close() {
  return ask(Leave{true}, std::chrono::steady_clock::now() + state_->slack).map([](std::uint32_t) {});
}

void Client::hurry(Duration slack) { state_->slack = slack; }

Answer<void> Client::put(std::string key, std::string value) {
  return call<Done>(Put{std::move(key), std::move(value)}).map([](const Done&) {});
}

Answer<std::string> Client::get(std::string key) {
  auto values = call<Values>(Get{std::move(key)});
  if (!values) return tl::unexpected(values.error());
  if (values->values.size() != 1) return state_->broken({Code::protocol, "a get has one value", {}});
  return std::move(values->values.front());
}

Answer<std::vector<std::string>> Client::wait(std::vector<std::string> keys, Duration within) {
  return call<Values>(Wait{std::move(keys), wait_ms(within)}, within).map([](Values v) { return v.values; });
}

Answer<Swapped> Client::compare_and_set(std::string key, std::optional<std::string> expected,
                                        std::string desired) {
  return call<Swapped>(CompareAndSet{std::move(key), std::move(expected), std::move(desired)});
}

Answer<std::vector<std::string>> Client::gather(std::string prefix, std::uint32_t count, Duration within) {
  return call<Values>(Gather{std::move(prefix), count, wait_ms(within)}, within).map([](Values v) {
    return v.values;
  });
}

Answer<void> Client::barrier(std::string name, std::vector<std::uint32_t> ranks, Duration within) {
  return call<Done>(Barrier{std::move(name), std::move(ranks), wait_ms(within)}, within).map([](const Done&) {
  });
}

Answer<void> Client::publish_ids(std::string group, std::vector<std::uint32_t> ranks,
                                 std::vector<std::string> ids) {
  return call<Done>(PublishIds{std::move(group), std::move(ranks), std::move(ids)}).map([](const Done&) {});
}

Answer<std::vector<std::string>> Client::fetch_ids(std::string group, Rank first, std::uint32_t size,
                                                   Duration within) {
  return call<Values>(FetchIds{std::move(group), first.value, size, wait_ms(within)}, within)
      .map([](Values v) { return v.values; });
}

Answer<Verdict> Client::watch(Duration within) {
  return call<Over>(Watch{wait_ms(within)}, within).map([](Over over) { return over.verdict; });
}

Answer<void> Client::abort(std::string why, std::vector<std::uint32_t> missing) {
  return call<Done>(Abort{std::move(why), std::move(missing)}).map([](const Done&) {});
}

Answer<Placed> Client::next(WorkerId worker, Duration within) {
  auto placed = call<Placed>(Next{worker.value, wait_ms(within)}, within);
  if (placed) state_->generation = Generation{placed->generation};
  return placed;
}

Answer<std::variant<Notice, Verdict>> Client::hear(Rank rank, std::uint32_t seen, Duration within) {
  auto& s = *state_;
  auto deadline = std::chrono::steady_clock::now() + within;
  for (;;) {
    while (const auto message = s.channel.next()) {
      auto reply = decode_reply(*message);
      if (!reply) return s.broken(reply.error());
      for (auto* open : {&s.watching, &s.listening})
        if (*open == reply->id) open->reset();
      if (auto* over = std::get_if<Over>(&reply->body)) return std::move(over->verdict);
      if (auto* notice = std::get_if<Notice>(&reply->body)) return std::move(*notice);
      if (auto* refusal = std::get_if<Failure>(&reply->body)) {
        if (refusal->verdict) return std::move(*refusal->verdict);
        if (refusal->kind != FailureKind::timeout) return tl::unexpected(std::move(*refusal));
      }
    }
    for (auto* open : {&s.watching, &s.listening}) {
      if (*open) continue;
      const auto id = open == &s.watching ? ask(Watch{max_wait_ms}, deadline + s.slack)
                                          : ask(News{rank.value, seen, max_wait_ms}, deadline + s.slack);
      if (!id) return tl::unexpected(id.error());
      *open = *id;
    }
    auto bytes = s.socket.receive(deadline);
    if (!bytes && bytes.error().code == Code::timeout)
      return failure(FailureKind::timeout, "no news from the server");
    if (!bytes) return s.broken(bytes.error());
    if (const auto taken = s.channel.receive(*bytes); !taken) return s.broken(taken.error());
  }
}

Answer<void> Client::pulse(Pulse pulse) {
  pulse.op.resize(std::min(pulse.op.size(), max_operation));
  return ask(std::move(pulse), std::chrono::steady_clock::now() + state_->slack).map([](std::uint32_t) {});
}

void Client::interrupt() { state_->socket.shut_down(); }
std::string Client::local_address() const { return state_->socket.local_address(); }

}  // namespace trainrun::rendezvous
