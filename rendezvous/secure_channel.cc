#include "rendezvous/secure_channel.h"

#include <fmt/format.h>
#include <sodium.h>

#include <list>
#include <utility>

#include "launcher/base/check.h"
#include "rendezvous/protocol.h"

namespace trainrun::rendezvous {
namespace {

constexpr std::string_view client_magic = "trnrdc";
constexpr std::string_view server_magic = "trnrds";
constexpr std::string_view label = "trainrun rendezvous session keys";
constexpr std::size_t salt_size = 32;
constexpr std::size_t hello_size = 6 + 2 + salt_size;
constexpr std::size_t stream_header_size = crypto_secretstream_xchacha20poly1305_HEADERBYTES;
constexpr std::size_t overhead = crypto_secretstream_xchacha20poly1305_ABYTES;
static_assert(crypto_secretstream_xchacha20poly1305_KEYBYTES == 32);

unsigned char* bytes_of(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }
const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

void start_library() { TRAINRUN_CHECK(sodium_init() >= 0); }  // may be called often and by many threads

std::string make_hello(std::string_view magic) {
  std::string hello(magic);
  hello.push_back(static_cast<char>(protocol_version & 0xff));
  hello.push_back(static_cast<char>(protocol_version >> 8));
  std::string salt(salt_size, '\0');
  randombytes_buf(salt.data(), salt.size());
  return hello + salt;
}

}  // namespace

Key random_key() {
  start_library();
  Key key;
  randombytes_buf(key.bytes.data(), key.bytes.size());
  return key;
}

struct SecureChannel::State {
  enum class Step : std::uint8_t { hello, stream_header, proof, open, broken };

  State(Role the_role, const Key& the_key, std::size_t the_limit)
      : role(the_role), key(the_key), limit(the_limit), records(overhead) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    for (auto* secret : {&key.bytes, &push_key, &pull_key}) sodium_memzero(secret->data(), secret->size());
    sodium_memzero(&push, sizeof push);
    sodium_memzero(&pull, sizeof pull);
  }

  Result<void> take_hello(std::string_view hello);
  Result<void> take_record(const std::string& record);
  void derive(std::string_view client_hello, std::string_view server_hello);
  void open_push() {
    std::string header(stream_header_size, '\0');
    crypto_secretstream_xchacha20poly1305_init_push(&push, bytes_of(header), push_key.data());
    output += header;
    seal({});
  }
  void seal(std::string_view message);
  tl::unexpected<Error> broken(Code code, std::string why) {
    step = Step::broken;
    return fail(code, std::move(why));
  }

  Role role;
  Key key;
  std::size_t limit;
  Step step = Step::hello;
  std::string own_hello;
  std::string input;  // before the records begin
  std::string output;
  RecordReader records;
  std::list<std::string> messages;  // an empty deque would have 600 bytes, and each rank has a channel
  std::array<unsigned char, 32> push_key{}, pull_key{};
  crypto_secretstream_xchacha20poly1305_state push{}, pull{};
};

void SecureChannel::State::derive(std::string_view client_hello, std::string_view server_hello) {
  std::array<unsigned char, 64> both{};
  crypto_generichash_state hash;
  crypto_generichash_init(&hash, key.bytes.data(), key.bytes.size(), both.size());
  for (const auto part : {label, client_hello, server_hello})
    crypto_generichash_update(&hash, bytes_of(part), part.size());
  crypto_generichash_final(&hash, both.data(), both.size());
  auto& to_server = role == Role::client ? push_key : pull_key;
  auto& to_client = role == Role::client ? pull_key : push_key;
  std::copy_n(both.begin(), 32, to_server.begin());
  std::copy_n(both.begin() + 32, 32, to_client.begin());
  sodium_memzero(both.data(), both.size());
}

void SecureChannel::State::seal(std::string_view message) {
  const std::string length = record_length(message.size() + overhead);
  std::string record(message.size() + overhead, '\0');
  crypto_secretstream_xchacha20poly1305_push(&push, bytes_of(record), nullptr, bytes_of(message),
                                             message.size(), bytes_of(std::string_view(length)),
                                             length.size(), 0);
  output += length;
  output += record;
}

Result<void> SecureChannel::State::take_hello(std::string_view hello) {
  const auto magic = role == Role::client ? server_magic : client_magic;
  if (hello.substr(0, magic.size()) != magic)
    return broken(Code::protocol, "the peer does not speak trainrun's rendezvous protocol");
  const unsigned version = static_cast<unsigned char>(hello[6]) | static_cast<unsigned char>(hello[7]) << 8;
  if (role == Role::server) own_hello = make_hello(server_magic);
  if (version != protocol_version) {
    if (role == Role::server) output += own_hello;  // so that the client can say which version is here
    return broken(Code::protocol,
                  fmt::format("the peer speaks version {} of the rendezvous protocol, and this is "
                              "version {}",
                              version, protocol_version));
  }
  if (role == Role::server) {
    derive(hello, own_hello);
    output += own_hello;
    open_push();
  } else {
    derive(own_hello, hello);
  }
  step = Step::stream_header;
  return {};
}

Result<void> SecureChannel::State::take_record(const std::string& record) {
  const std::string length = record_length(record.size());
  if (record.size() < overhead) return broken(Code::protocol, "a rendezvous record is too short");
  std::string message(record.size() - overhead, '\0');
  unsigned char tag = 0;
  if (crypto_secretstream_xchacha20poly1305_pull(&pull, bytes_of(message), nullptr, &tag,
                                                 bytes_of(std::string_view(record)), record.size(),
                                                 bytes_of(std::string_view(length)), length.size()) != 0)
    return broken(Code::refused, step == Step::proof ? "the peer does not have this job's key"
                                                     : "bytes were changed on the way");
  if (tag != 0) return broken(Code::protocol, "a rendezvous record has an unknown tag");
  if (step == Step::open) {
    messages.push_back(std::move(message));
    return {};
  }
  step = Step::open;  // the proof: an empty record
  records.set_limit(limit + overhead);
  if (role == Role::client) open_push();
  return {};
}

SecureChannel::SecureChannel(Role role, const Key& key, std::size_t limit) {
  start_library();
  state_ = std::make_unique<State>(role, key, limit);
  if (role == Role::client) {
    state_->own_hello = make_hello(client_magic);
    state_->output = state_->own_hello;
  }
}
SecureChannel::~SecureChannel() = default;
SecureChannel::SecureChannel(SecureChannel&&) noexcept = default;
SecureChannel& SecureChannel::operator=(SecureChannel&&) noexcept = default;

Result<void> SecureChannel::receive(std::string_view bytes) {
  using Step = State::Step;
  auto& s = *state_;
  if (s.step == Step::broken) return fail(Code::protocol, "the rendezvous channel is broken already");
  while (s.step == Step::hello || s.step == Step::stream_header) {
    const std::size_t wanted = s.step == Step::hello ? hello_size : stream_header_size;
    const std::size_t part = std::min(wanted - s.input.size(), bytes.size());
    s.input += bytes.substr(0, part);
    bytes.remove_prefix(part);
    if (s.input.size() < wanted) return {};
    const std::string whole = s.input;
    s.input.clear();
    if (s.step == Step::hello) {
      if (auto taken = s.take_hello(whole); !taken) return taken;
    } else {
      crypto_secretstream_xchacha20poly1305_init_pull(&s.pull, bytes_of(std::string_view(whole)),
                                                      s.pull_key.data());
      s.step = Step::proof;
    }
  }
  s.records.feed(bytes);
  for (;;) {
    auto record = s.records.next();
    if (!record) return s.broken(record.error().code, record.error().message);
    if (!*record) return {};
    if (auto taken = s.take_record(**record); !taken) return taken;
  }
}

std::optional<std::string> SecureChannel::next() {
  if (state_->messages.empty()) return std::nullopt;
  std::string message = std::move(state_->messages.front());
  state_->messages.pop_front();
  return message;
}

void SecureChannel::send(std::string_view message) {
  TRAINRUN_CHECK(established());
  state_->seal(message);
}

std::string SecureChannel::take_output() { return std::exchange(state_->output, {}); }

bool SecureChannel::established() const { return state_->step == State::Step::open; }

}  // namespace trainrun::rendezvous
