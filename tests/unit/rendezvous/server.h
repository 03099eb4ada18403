// A rendezvous server on a thread of its own, on a loopback port of the kernel's choice.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "launcher/io/loop.h"
#include "rendezvous/client.h"
#include "rendezvous/service.h"
#include "rendezvous/tcp_listener.h"

namespace trainrun::rendezvous {

constexpr Duration patient = seconds(60);  // only against hanging

class Server {
 public:
  // An open world of `size`, or one with the members' hosts named beforehand.
  explicit Server(std::uint32_t size, const std::vector<std::string>& hosts = {})
      : listener_(TcpListener::listen(loop_, "127.0.0.1:0").value()),
        service_(key, {[this](std::uint32_t c, std::string bytes) { listener_->send(c, std::move(bytes)); },
                       [this](std::uint32_t c) { listener_->close(c); }}),
        wake_(loop_) {
    World world{1, size, "job", {}};
    for (const auto& host : hosts) {
      Member member;
      member.host = host;
      world.members.push_back(member);
    }
    service_.begin_generation({1}, std::move(world), io::Loop::now());
    listener_->serve(service_, {[this] { return ++last_; }, [this] { rearm(); }});
    address = listener_->address();
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~Server() {
    loop_.post([this] { loop_.stop(); });
    thread_.join();
  }
  // What the launcher would say.
  void member_lost(std::uint32_t rank, const std::string& host, const std::string& how) {
    loop_.post([this, rank, host, how] {
      service_.member_lost({1}, {rank}, host, how, io::Loop::now());
      rearm();
    });
  }
  Client client() {
    auto connected = Client::connect(address, key, {1}, patient);
    if (!connected) throw std::runtime_error(connected.error().message);
    return std::move(*connected);
  }

  std::string address;
  Key key = random_key();

 private:
  void rearm() {
    if (const auto next = service_.next_deadline())
      wake_.arm(*next, [this] {
        service_.advance(io::Loop::now());
        rearm();
      });
  }

  io::Loop loop_;
  std::unique_ptr<TcpListener> listener_;
  Service service_;
  io::Timer wake_;
  std::uint32_t last_ = 0;
  std::thread thread_;
};

}  // namespace trainrun::rendezvous
