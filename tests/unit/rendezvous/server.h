// A rendezvous server on a thread of its own, on a loopback port of the kernel's choice.
#pragma once

#include <functional>
#include <map>
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
                       [this](std::uint32_t c) { listener_->close(c); },
                       {},
                       [this](const Event& event) {
                         if (on_event) on_event(event);
                       },
                       [this](std::uint32_t c) { return listener_->unsent(c); }}),
        wake_(loop_) {
    World world{1, size, "job", {}};
    for (const auto& host : hosts) {
      Member member;
      member.host = host;
      world.members.push_back(member);
    }
    number_locally(world);
    service_.begin_generation({1}, std::move(world), io::Loop::now());
    listener_->serve(service_, {[this] { return ++last_; }, [this] { rearm(); }});
    address = listener_->address();
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~Server() { stop(); }
  // No event is told after this; for those whose on_event uses what ends before the server.
  void stop() {
    if (!thread_.joinable()) return;
    loop_.post([this] { loop_.stop(); });
    thread_.join();
  }
  // What the launcher would say.
  void say(std::function<void(Service&)> word) {
    loop_.post([this, word = std::move(word)] {
      word(service_);
      rearm();
    });
  }
  void member_lost(std::uint32_t rank, const std::string& host, const std::string& how) {
    say([=](Service& service) { service.member_lost({1}, {rank}, host, how, io::Loop::now()); });
  }
  // A generation of these workers, by rank, each on a host of its own or all on one.
  void begin(std::uint32_t generation, const std::vector<std::uint32_t>& workers, bool one_host = false) {
    World world{generation, 0, "job", {}};
    for (const auto worker : workers) {
      Member member;
      member.host = one_host ? "host" : "host" + std::to_string(worker);
      member.worker = worker;
      world.members.push_back(member);
    }
    number_locally(world);
    say([=](Service& service) { service.begin_generation({generation}, world, io::Loop::now()); });
  }
  Client client(std::uint32_t generation = 1) {
    auto connected = Client::connect(address, key, {generation}, patient);
    if (!connected) throw std::runtime_error(connected.error().message);
    return std::move(*connected);
  }

  std::function<void(const Event&)> on_event;  // on the server's thread; set before anybody connects
  std::string address;
  Key key = random_key();

 private:
  // What a launcher says of members on one host.
  static void number_locally(World& world) {
    std::map<std::string, std::uint32_t> on_host;
    for (auto& member : world.members) member.local_rank = on_host[member.host]++;
    for (auto& member : world.members) member.local_size = on_host[member.host];
  }
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
