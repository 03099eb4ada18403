// A Session and, at the other end of a socket pair, an agent that answers as it is told.
#pragma once

#include <doctest/doctest.h>
#include <signal.h>

#include <boost/asio/io_context.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/io/clock.h"
#include "launcher/session.h"

namespace trainrun {

struct SessionScene {
  explicit SessionScene(bool same_clock = false, std::uint32_t host_timeout_ms = 60'000) {
    ::signal(SIGPIPE, SIG_IGN);
    auto pair = make_socket_pair();
    REQUIRE(pair);
    agent_fd = pair->second.get();
    agent.emplace(loop, std::move(pair->second), Fd(),
                  io::FrameStream::Handlers{[this](const wire::Frame& frame) { answer(frame); },
                                            [this](const std::string&) { agent_closed = true, look(); }});
    session.emplace(
        loop, "gpu1", same_clock,
        Session::Handlers{
            [this] { said("ready"); }, [this](Error given) { error = std::move(given), said("failed"); },
            [this](Session::Loss it) { reason = it.reason, loss = std::move(it), said("lost"); },
            [this](const wire::Frame&) { said("message"); },
            [this](const wire::Stopped&) { said("stopped"); }});
    Session::Opening opening;
    opening.greeting.host_timeout_ms = host_timeout_ms;
    opening.job.credit = 1000;
    opening.doors = {{}};
    session->connected(std::move(pair->first), opening);
  }
  void said(const std::string& what) {
    events.push_back(what);
    if (on_event) on_event();
    look();
  }
  void answer(const wire::Frame& frame) {
    seen.push_back(frame.type);
    switch (frame.type) {
      case wire::Greet::type:
        agent->send(wire::Hello{version, 1});
        if (greets) agent->send(greeted);
        break;
      case wire::OpenJob::type:
        agent->send(prepared);
        break;
      case wire::OpenDoor::type:
        agent->send(wire::DoorOpened{4711, 0});
        break;
      case wire::Ping::type:
        if (!silent)
          agent->send(wire::Pong{wire::from_frame<wire::Ping>(frame)->sequence,
                                 pong_ns.value_or(io::real_now().time_since_epoch().count() + ahead_ns)});
        break;
      case wire::Credit::type:
        credit += wire::from_frame<wire::Credit>(frame)->bytes;
        break;
      case wire::Stop::type:
        if (stops) agent->send(wire::Stopped{2, false});
        break;
      default:
        break;
    }
    look();
  }
  void look() {
    if (until && until()) loop.stop();
  }
  void run(std::function<bool()> wanted) {
    until = std::move(wanted);
    io::Timer limit(loop);
    limit.arm(io::Loop::now() + seconds(30), [this] { loop.stop(); });
    loop.post([this] { look(); });
    loop.run();
    CHECK(until());
    until = nullptr;
    loop.context().restart();
  }
  void until_events(std::size_t count) {
    run([this, count] { return events.size() >= count; });
  }

  io::Loop loop;
  int agent_fd = -1;  // of the next
  std::optional<io::FrameStream> agent;
  std::optional<Session> session;
  wire::Greeted greeted;
  wire::Prepared prepared;
  std::uint32_t version = wire::protocol_version;
  bool silent = false, stops = true, greets = true, agent_closed = false;
  std::int64_t ahead_ns = 0;
  std::optional<std::int64_t> pong_ns;
  std::uint64_t credit = 0;
  std::vector<std::uint8_t> seen;
  std::vector<std::string> events;
  Error error;
  std::string reason;
  Session::Loss loss;
  std::function<bool()> until;
  std::function<void()> on_event;
};

}  // namespace trainrun
