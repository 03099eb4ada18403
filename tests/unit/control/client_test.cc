#include "launcher/control/client.h"

#include <doctest/doctest.h>

#include "tests/unit/control/server.h"

namespace trainrun::control {
namespace {

std::vector<std::string> ids(const RunningJobs& found) {
  std::vector<std::string> out;
  for (const auto& job : found.jobs) out.push_back(job.id);
  return out;
}

TEST_CASE("jobs are found in every place that is safe, in the order of their ids") {
  const Place place;
  Running second(place / "one", "bb22"), first(place / "two", "aa11");
  REQUIRE(::mkdir((place / "open").c_str(), 0700) == 0);
  raw_listener(place / "open/cc33.sock").reset();
  REQUIRE(::chmod((place / "open").c_str(), 0777) == 0);
  const auto found = find_jobs({place / "one", place / "gone", place / "open", place / "two"});
  CHECK(ids(found) == std::vector<std::string>{"aa11", "bb22"});
  CHECK(found.jobs.front().socket == first.path);
  REQUIRE(found.problems.size() == 1);
  CHECK(found.problems.front().find("is open to other users") != std::string::npos);
  CHECK(exists(place / "open/cc33.sock"));  // not touched
}

TEST_CASE("one request, one reply") {
  const Place place;
  Running server(place / "trainrun");
  const auto reply = ok_reply(std::string(1 << 20, 'x'));
  server.set_reply(reply);
  CHECK(ask(server.path, R"({"do":"world"})", seconds(60)).value() == reply);
  CHECK(server.told().size() == 1);
}

TEST_CASE("a launcher that is gone, is stopped, hangs up or never ends its answer") {
  const Place place;
  const auto path = place / "aa11.sock";
  CHECK(ask(path, "x", seconds(60)).error().code == Code::not_found);
  raw_listener(path).reset();
  CHECK(ask(path, "x", seconds(60)).error().code == Code::not_found);
  ::unlink(path.c_str());

  const auto listener = raw_listener(path);  // nobody accepts, as when it is stopped
  const auto stopped = ask(path, "x", milliseconds(20));
  REQUIRE_FALSE(stopped.has_value());
  CHECK(stopped.error().code == Code::unreachable);
  CHECK(stopped.error().hint == "if it was stopped (^Z): kill -CONT " + std::to_string(::getpid()));
  CHECK(ask(path, std::string(8 << 20, 'x'), milliseconds(20)).error().code == Code::unreachable);
  Fd(::accept(listener.get(), nullptr, nullptr)).reset();  // the two that gave up
  Fd(::accept(listener.get(), nullptr, nullptr)).reset();

  std::thread hangs_up([&] { Fd(::accept(listener.get(), nullptr, nullptr)).reset(); });
  const auto lost = ask(path, "x", seconds(60));
  hangs_up.join();
  REQUIRE_FALSE(lost.has_value());
  CHECK(lost.error().code == Code::lost);

  std::thread endless([&] {
    const Fd peer(::accept(listener.get(), nullptr, nullptr));
    const std::string bytes(1 << 16, 'x');
    while (::send(peer.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0) {
    }
  });
  const auto no_end = ask(path, "x", seconds(60));
  endless.join();
  REQUIRE_FALSE(no_end.has_value());
  CHECK(no_end.error().code == Code::protocol);
}

}  // namespace
}  // namespace trainrun::control
