// How a client gets in where the first try is not enough.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "launcher/base/fd.h"
#include "rendezvous/client.h"
#include "rendezvous/socket.h"
#include "tests/unit/rendezvous/server.h"

using namespace trainrun;
using namespace trainrun::rendezvous;

namespace {

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  name.sin_port = htons(port);
  return name;
}

// What stands between client and server: hangs up on the first connections, and carries the next one.
class Gate {
 public:
  Gate(std::string server, int refusals) : server_(std::move(server)), refusals_(refusals) {
    listener_ = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    auto name = loopback(0);
    socklen_t size = sizeof name;
    REQUIRE(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&name), size) == 0);
    REQUIRE(::listen(listener_.get(), 16) == 0);
    REQUIRE(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&name), &size) == 0);
    address = "127.0.0.1:" + std::to_string(ntohs(name.sin_port));
    thread_ = std::thread([this] { serve(); });
  }
  ~Gate() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  std::string address;

 private:
  void serve() {
    for (int i = 0;; ++i) {
      const Fd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!client) return;
      if (i >= refusals_) carry(client.get());
    }
  }
  void carry(int client) {
    const auto parts = split_address(server_).value();
    const Fd server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto name = loopback(parts.second);
    if (::connect(server.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) return;
    std::array<pollfd, 2> ends{{{client, POLLIN, 0}, {server.get(), POLLIN, 0}}};
    std::array<char, 65536> buffer;
    while (::poll(ends.data(), ends.size(), 60'000) > 0) {
      for (std::size_t i = 0; i < 2; ++i) {
        if (ends[i].revents == 0) continue;
        const auto count = ::read(ends[i].fd, buffer.data(), buffer.size());
        if (count <= 0 || !write_all(ends[1 - i].fd, {buffer.data(), static_cast<std::size_t>(count)}))
          return;
      }
    }
  }

  std::string server_;
  int refusals_;
  Fd listener_;
  std::thread thread_;
};

}  // namespace

TEST_CASE("a client that is hung up on before the server's proof comes again") {
  Server server(1);
  const Gate gate(server.address, 2);
  auto client = Client::connect(gate.address, server.key, {1}, patient);
  REQUIRE_MESSAGE(client, client.error().message);
  CHECK(client->put("k", "v"));
  CHECK(client->get("k") == "v");
}

TEST_CASE("one that is always hung up on says so once its time is over") {
  const Gate gate("", 1'000'000);
  const auto refused = Client::connect(gate.address, random_key(), {1}, milliseconds(350));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().kind == FailureKind::disconnected);
  CHECK(refused.error().message.find(gate.address) != std::string::npos);
}
