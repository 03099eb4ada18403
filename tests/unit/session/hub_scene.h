// A hub of the rendezvous, and one member on stream 1 of host 0.
#pragma once

#include "launcher/rendezvous_hub.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <optional>

#include "launcher/wire/frame.h"
#include "launcher/wire/messages.h"
#include "rendezvous/protocol.h"

namespace trainrun::hub_test {

using rendezvous::SecureChannel;

struct Scene {
  Scene() {
    hub.emplace(
        loop, std::string(reinterpret_cast<const char*>(key.bytes.data()), key.bytes.size()),
        [this](HostIndex, StreamId, const std::string& bytes, bool end) {
          inbox += bytes;
          longest = std::max(longest, bytes.size());
          ended += end ? 1 : 0;
        },
        RendezvousHub::Events{
            [this](Generation, Rank rank) { told.push_back("joined " + std::to_string(rank.value)); },
            [this](Generation, bool elastic) { told.push_back(elastic ? "elastic" : "not elastic"); },
            [this](Generation, const rendezvous::Verdict& it) { told.push_back("broken: " + it.how); },
            [this](Generation g, WorkerId worker) {
              told.push_back("waits " + std::to_string(g.value) + " " + std::to_string(worker.value));
            },
            [this](Generation, WorkerId worker, const rendezvous::Pulse& pulse) {
              told.push_back(pulse.op + std::to_string(pulse.sequence) + " of " +
                             std::to_string(worker.value));
            },
            nullptr,
            [this](Generation, const rendezvous::TorchClash& clash) {
              told.push_back("clash at " + std::to_string(clash.number));
            },
            [this](Generation, std::uint32_t member) { told.push_back("beyond " + std::to_string(member)); },
            [this](HostIndex, const std::string& why) { told.push_back("refused: " + why); }, nullptr,
            [this](HostIndex, const std::string& why) { told.push_back("not Horovod's: " + why); }, nullptr,
            [this](Generation g) { told.push_back("Horovod's " + std::to_string(g.value)); },
            [this](WorkerId worker) { told.push_back("hopeless " + std::to_string(worker.value)); },
            [this](Generation, Rank rank) { told.push_back("deserted " + std::to_string(rank.value)); },
            [this](WorkerId worker, const std::string& why) {
              told.push_back("unreachable " + std::to_string(worker.value) + ": " + why);
            }},
        [this](HostIndex, StreamId, std::uint64_t bytes) { credit += bytes; },
        [this](HostIndex host, const wire::OpenStream& order) {
          CHECK(host == HostIndex{0});
          streams.push_back(order);
        },
        [this](HostIndex host, const wire::BreakConnections& order) {
          CHECK(host == broken_on);
          broken.insert(broken.end(), order.ends.begin(), order.ends.end());
        });
    RendezvousHub::Member member;
    member.worker = WorkerId{7};
    hub->begin({1}, {member});
    hub->opened({0}, {1});
    exchange();
    exchange();
  }
  void exchange() {
    if (const auto out = channel.take_output(); !out.empty()) hub->received({0}, {1}, out, false);
    while (!inbox.empty()) {
      const auto bytes = std::exchange(inbox, {});
      REQUIRE(channel.receive(bytes));
      hub->taken({0}, {1}, bytes.size());
    }
  }
  template <class Body>
  rendezvous::ReplyBody ask(Body body) {
    channel.send(rendezvous::encode({1, 1, std::move(body)}));
    exchange();
    const auto message = channel.next();
    REQUIRE(message);
    return rendezvous::decode_reply(*message).value().body;
  }
  // Reads all that comes, as a member behind a door does, until nothing more does; how many replies it were.
  std::size_t read_all() {
    std::size_t replies = 0;
    while (!inbox.empty()) {
      const auto bytes = std::exchange(inbox, {});
      REQUIRE(channel.receive(bytes));
      while (channel.next()) ++replies;
      hub->taken({0}, {1}, bytes.size());
    }
    return replies;
  }
  void turn() {
    loop.context().restart();
    loop.context().poll();
  }

  io::Loop loop;
  rendezvous::Key key = rendezvous::random_key();
  std::string inbox;
  std::size_t longest = 0;  // of the frames
  int ended = 0;
  std::uint64_t credit = 0;
  std::vector<std::string> told;
  std::vector<wire::OpenStream> streams;
  std::vector<std::string> broken;
  HostIndex broken_on{0};
  SecureChannel channel{SecureChannel::Role::client, key, rendezvous::max_reply};
  std::optional<RendezvousHub> hub;
};

using Told = std::vector<std::string>;

}  // namespace trainrun::hub_test
